// SPDX-License-Identifier: Apache-2.0
#include "matrix/sharded.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/shard.hpp"

namespace matrix {

namespace kernels = fourfold::kernels;
using fourfold::concat;
using fourfold::InvariantError;

namespace {

/// Allocates memory for this rank's part.
Tensor part(const Mesh& mesh, Kind kind, Axis axis, const grid::Shape& shape, at::ScalarType type) {
  check_divides(mesh.grid(), kind, axis, shape);
  return at::empty(layout_of(kind, axis).shard_shape(shape, mesh.grid()),
                   at::TensorOptions(type).device(mesh.device()));
}

grid::Block block_here(const Mesh& mesh, Kind kind, Axis axis, const grid::Shape& shape) {
  return layout_of(kind, axis).block(shape, mesh.grid(), mesh.coord());
}

}  // namespace

Shard::Shard(const Mesh& mesh, Kind kind, Axis axis, grid::Shape shape, Tensor local)
    : mesh_(&mesh), shape_(std::move(shape)), local_(std::move(local)) {
  check_divides(mesh.grid(), kind, axis, shape_);
  FOURFOLD_CHECK(local_.defined() && local_.is_floating_point(), "no numbers for ",
                 name_of(kind, axis));
  static_cast<void>(tensor::dtype_of(local_.scalar_type()));  // throws if it cannot be communicated
  FOURFOLD_CHECK_EQ(local_.device().type(), mesh.device().type(), "the mesh's device");
  const grid::Shape expected = layout_of(kind, axis).shard_shape(shape_, mesh.grid());
  FOURFOLD_CHECK(local_.sizes() == expected, "a rank's part of ", name_of(kind, axis), " of ",
                 to_string(shape_), " is ", to_string(expected), ", and not ",
                 to_string(local_.sizes().vec()));
}

Tensor Shard::cut(const Mesh& mesh, Kind kind, Axis axis, const Tensor& whole) {
  check_divides(mesh.grid(), kind, axis, whole.sizes().vec());
  return tensor::shard(mesh, whole, layout_of(kind, axis));
}

Tensor Shard::normal_part(const Mesh& mesh, Kind kind, Axis axis, const grid::Shape& shape,
                          std::uint64_t seed, std::string_view name, double deviation,
                          at::ScalarType type) {
  Tensor local = part(mesh, kind, axis, shape, type);
  kernels::fill_normal(local, shape, block_here(mesh, kind, axis, shape),
                       kernels::key_of(seed, name), deviation);
  return local;
}

Tensor Shard::zero_part(const Mesh& mesh, Kind kind, Axis axis, const grid::Shape& shape,
                        at::ScalarType type) {
  return part(mesh, kind, axis, shape, type).zero_();
}

Tensor Shard::gathered(Kind kind, Axis axis) const {
  return tensor::unshard(*mesh_, local_, shape_, layout_of(kind, axis));
}

Tensor Shard::local_gradient() const {
  const Tensor& gradient = local_.grad();
  FOURFOLD_CHECK(gradient.defined(), "no gradient: the matrix is no leaf that requires one, or no ",
                 "backward pass has reached it");
  return gradient;
}

void check_together(const char* operation, const Shard& a, const Shard& b) {
  if (&a.mesh() != &b.mesh()) {
    throw InvariantError(concat(operation, ": its operands are on different meshes"));
  }
  if (a.type() != b.type()) {
    throw InvariantError(concat(operation, ": its operands are of ", c10::toString(a.type()),
                                " and ", c10::toString(b.type())));
  }
}

}  // namespace matrix
