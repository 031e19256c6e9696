// The values of a parameter on this rank: its shard of a global tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/nn/parameter_spec.hpp"

namespace fourfold::nn {

/// New values of parameters that are received in one operation. They count as arrived when a caller
/// has waited for them, whatever the network does. So every rank and every step sees the same.
struct Arrival {
  comm::Work work;
  bool waited = false;

  void wait() {
    work.wait();
    waited = true;
  }
};

/// A new shard has no memory. Its values are initialised in their final place: in the memory that
/// an optimizer provides (`live_in`), or else in memory of its own when they are first needed.
class Shard {
 public:
  /// Every element of the initial values is a function of (seed, name, global index). Throws
  /// InvariantError for a spec that cannot work on this mesh.
  Shard(const Mesh& mesh, ParameterSpec spec, const Precision& precision, std::uint64_t seed);

  const Mesh& mesh() const { return *mesh_; }
  const ParameterSpec& spec() const { return spec_; }
  const Precision& precision() const { return precision_; }
  const grid::Layout& layout() const { return layout_; }
  /// The shape and the number of elements, with padding.
  const grid::Shape& shape() const { return shape_; }
  std::int64_t size() const { return size_; }
  /// The elements of a row.
  std::int64_t columns() const { return shape_[0] == 0 ? 1 : size_ / shape_[0]; }

  /// The elements, with padding, in the type of computation. Throws InvariantError while they are
  /// arriving.
  const Tensor& value() const;
  /// The same tensor as a leaf of the autograd graph. Its elements may not have arrived yet.
  const Tensor& leaf() const;

  /// Writes new values into `rows`, a tensor of the master type that is zero. It holds some rows of
  /// the shard; its elements from the first on are the block `here` of the global tensor. The
  /// remaining elements are padding.
  using Fill = std::function<void(Tensor& rows, const grid::Block& here)>;
  /// Replaces the values, some rows at a time, so that there is never a second copy of all values.
  void fill(const Fill& rows);
  /// Replaces all elements, including padding, by `values` of the same shape.
  void assign(const Tensor& values);

  /// From now on the value is stored in `home`, a tensor of its shape and type. Elements [first,
  /// first + n) are also stored in `master`, n elements of the master type that the caller owns;
  /// `master` is undefined if there are none. Existing values are copied to `home`; otherwise they
  /// are initialised there.
  void live_in(const Tensor& home, const Tensor& master, std::int64_t first);
  /// Says that new values are being received.
  void expect_values(std::shared_ptr<Arrival> arrival) { arrival_ = std::move(arrival); }
  bool arriving() const { return arrival_ != nullptr && !arrival_->waited; }
  /// Waits for values that are arriving.
  void wait_for_values() const {
    if (arriving()) arrival_->wait();
  }

 private:
  /// Some rows of the shard, and the block of the global tensor that they hold.
  struct Rows {
    grid::Range range;
    grid::Block block;
  };
  std::vector<Rows> pieces() const;
  void allocate() const;
  /// Calls `write_rows` for each piece of the values, in the master type, and rounds the piece into
  /// its place.
  void write(const std::function<void(Tensor&, const Rows&)>& write_rows) const;
  void initialise() const;

  const Mesh* mesh_;
  ParameterSpec spec_;
  Precision precision_;
  std::uint64_t seed_;
  grid::Layout layout_;
  grid::Shape shape_;
  std::int64_t size_ = 1;
  mutable Tensor value_;           // undefined until it is needed or `live_in` is called
  Tensor master_;                  // if its type differs: part of the values, kept elsewhere
  std::int64_t master_first_ = 0;  // the element that `master_` begins with
  std::shared_ptr<Arrival> arrival_;
};

/// The part of a shard that is not padding.
Tensor real_part(const Tensor& shard, const grid::Block& block);

}  // namespace fourfold::nn
