// A matrix or vector of which each rank has its own part. The type says how it is laid out on the
// grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

#include "matrix/layout.hpp"

namespace matrix {

namespace tensor = fourfold::tensor;
using tensor::Mesh;
using tensor::Tensor;

/// The common base of all sharded matrices and vectors. The mesh must outlive them and the graphs
/// that they are part of. The axes data and pipe are not used: for each of their coordinates there
/// are separate matrices.
class Shard {
 public:
  const Mesh& mesh() const { return *mesh_; }
  const grid::Shape& shape() const { return shape_; }  ///< the shape of the whole
  std::int64_t rows() const { return shape_.front(); }
  std::int64_t columns() const { return shape_.back(); }
  at::ScalarType type() const { return local_.scalar_type(); }

  /// This rank's part: exactly 1/(x·y·z) of the whole. It is differentiable, and a leaf of the
  /// graph where it was made from values. Then `local().set_requires_grad(true)` asks for its
  /// gradient. All ranks must ask for the same gradients, since the backward pass communicates.
  const Tensor& local() const { return local_; }

 protected:
  Shard(const Mesh& mesh, Kind kind, Axis axis, grid::Shape shape, Tensor local);

  static Tensor cut(const Mesh& mesh, Kind kind, Axis axis, const Tensor& whole);
  static Tensor normal_part(const Mesh& mesh, Kind kind, Axis axis, const grid::Shape& shape,
                            std::uint64_t seed, std::string_view name, double deviation,
                            at::ScalarType type);
  static Tensor zero_part(const Mesh& mesh, Kind kind, Axis axis, const grid::Shape& shape,
                          at::ScalarType type);
  Tensor gathered(Kind kind, Axis axis) const;
  /// The gradient of the leaf; throws InvariantError when there is none.
  Tensor local_gradient() const;

 private:
  const Mesh* mesh_;
  grid::Shape shape_;
  Tensor local_;
};

/// Throws InvariantError, with the name of an operation, unless both are on one mesh and of one
/// type.
void check_together(const char* operation, const Shard& a, const Shard& b);

/// The constructors throw ConfigError when the parts would not all have the same size.
template <Kind kKind, Axis kAxis>
requires(kAxis == Axis::kX || kAxis == Axis::kY) class Sharded final : public Shard {
 public:
  /// Makes a matrix from this rank's part. Throws InvariantError when the part does not have the
  /// required shape.
  Sharded(const Mesh& mesh, grid::Shape shape, Tensor local)
      : Shard(mesh, kKind, kAxis, std::move(shape), std::move(local)) {}

  /// Cuts this rank's part out of a tensor that all ranks have.
  static Sharded from_global(const Mesh& mesh, const Tensor& whole) {
    return {mesh, whole.sizes().vec(), cut(mesh, kKind, kAxis, whole)};
  }
  static Sharded zeros(const Mesh& mesh, const grid::Shape& shape, at::ScalarType type) {
    return {mesh, shape, zero_part(mesh, kKind, kAxis, shape, type)};
  }
  /// Normal numbers around 0, each a function of seed, name and its place in the whole: the same on
  /// every grid.
  static Sharded normal(const Mesh& mesh, const grid::Shape& shape, std::uint64_t seed,
                        std::string_view name, double deviation, at::ScalarType type) {
    return {mesh, shape, normal_part(mesh, kKind, kAxis, shape, seed, name, deviation, type)};
  }

  /// The block of the whole that this rank's part is.
  grid::Block block() const {
    return layout_of(kKind, kAxis).block(shape(), mesh().grid(), mesh().coord());
  }

  /// The whole, on every rank: collective over x, y and z. For inspection; it is not
  /// differentiable.
  Tensor to_global() const { return gathered(kKind, kAxis); }

  /// The same layout with other values, for operations on each element alone, as in
  /// `h.with(h.local().relu())`.
  Sharded with(Tensor local) const { return {mesh(), shape(), std::move(local)}; }

  /// The gradient of a leaf after a backward pass. It has the layout of its value. Throws
  /// InvariantError when there is none.
  Sharded gradient() const { return with(local_gradient()); }
};

template <Axis kColumns>
using Activations = Sharded<Kind::kActivations, kColumns>;
template <Axis kRows>
using Weight = Sharded<Kind::kWeight, kRows>;
template <Axis kAxis>
using Vector = Sharded<Kind::kVector, kAxis>;

}  // namespace matrix
