// How the shards of a parameter become the rows that a use of it sees, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/shard.hpp"
#include "fourfold/tensor/gather_ahead.hpp"

namespace fourfold::nn {

/// A use of the parameter sees a fixed number of rows: those of the `kept` blocks. Each block is
/// split over `gathered`, nested, with padding at its end. Gathered rows still have the padding of
/// all shards; `trim` leaves it out, and `pad` puts it back.
class Gathering {
 public:
  /// Joins the group over `gathered`. The shard must outlive the gathering.
  explicit Gathering(const Shard& shard);

  /// Whether this rank has all rows, so that there is nothing to communicate.
  bool is_whole() const { return shard_->mesh().size(shard_->spec().gathered) == 1; }
  const comm::Communicator& comm() const;
  /// The bytes of all gathered rows, with padding.
  std::int64_t bytes() const;
  /// Starts to gather the rows, with padding.
  tensor::Gathered start() const;

  /// The number of rows that a use sees, and with padding.
  std::int64_t rows() const { return rows_; }
  std::int64_t padded_rows() const;
  /// Removes the padding from gathered rows.
  Tensor trim(const Tensor& gathered) const;
  /// The inverse of `trim`: padding is zero. Makes no copy where there is no padding.
  Tensor pad(const Tensor& rows) const;
  /// The number of blocks that have padding of their own: the ranks along the first of two axes.
  std::int64_t outer_blocks() const;

 private:
  const Shard* shard_;
  std::int64_t rows_;
};

}  // namespace fourfold::nn
