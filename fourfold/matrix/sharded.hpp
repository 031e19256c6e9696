// A matrix or vector of which each rank has its own part, with the way it lies on the grid in its
// type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "fourfold/matrix/layout.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::matrix {

using tensor::Mesh;
using tensor::Tensor;

/// What all of them have. The mesh must outlive them and the graphs that they are part of. The axes
/// data and pipe are left alone: each of their planes has matrices of its own.
class Shard {
 public:
  const Mesh& mesh() const { return *mesh_; }
  const grid::Shape& shape() const { return shape_; }  ///< of the whole
  std::int64_t rows() const { return shape_.front(); }
  std::int64_t columns() const { return shape_.back(); }
  at::ScalarType type() const { return local_.scalar_type(); }

  /// This rank's part: exactly 1/(x·y·z) of the whole. Differentiable, and a leaf of the graph
  /// where it was made from values; then `local().set_requires_grad(true)` asks for its gradient.
  /// All ranks must ask alike, since backward communicates.
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

/// Throws InvariantError, in the name of an operation, unless both are on one mesh and of one type.
void check_together(const char* operation, const Shard& a, const Shard& b);

/// Constructors throw ConfigError when the parts would not be of one size.
template <Kind kKind, Axis kAxis>
requires(kAxis == Axis::kX || kAxis == Axis::kY) class Sharded final : public Shard {
 public:
  /// Of this rank's part. Throws InvariantError when it is not of the shape that it must have.
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

  /// Where this rank's part lies in the whole.
  grid::Block block() const {
    return layout_of(kKind, kAxis).block(shape(), mesh().grid(), mesh().coord());
  }

  /// The whole, on every rank: collective over x, y and z. For looking at; no gradient goes
  /// through.
  Tensor to_global() const { return gathered(kKind, kAxis); }

  /// The same place on the grid, other values: for what acts on each element alone, as in
  /// `h.with(h.local().relu())`.
  Sharded with(Tensor local) const { return {mesh(), shape(), std::move(local)}; }

  /// That of a leaf after a backward pass; it lies as its value does. Throws InvariantError when
  /// there is none.
  Sharded gradient() const { return with(local_gradient()); }
};

template <Axis kColumns>
using Activations = Sharded<Kind::kActivations, kColumns>;
template <Axis kRows>
using Weight = Sharded<Kind::kWeight, kRows>;
template <Axis kAxis>
using Vector = Sharded<Kind::kVector, kAxis>;

}  // namespace fourfold::matrix
