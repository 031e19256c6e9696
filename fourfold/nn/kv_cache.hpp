// Keys and values of the positions of a text that a model has seen, so that the next token costs
// one position instead of all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "fourfold/kernels/attention.hpp"
#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

/// Each rank keeps the keys and values of its own heads and samples.
class KvCache {
 public:
  /// The positions that all layers have seen.
  std::int64_t length() const { return length_; }
  /// Says that all layers have seen `positions` more.
  void advance(std::int64_t positions) { length_ += positions; }

  /// Attention of the queries of new positions to all positions, without a graph. `q` is a matrix
  /// with the columns `columns` for the query heads. `kv` has the keys and values of the new
  /// positions in columns [kv head][k | v]; they are added to those of `layer`. Rows are (sample,
  /// new position). `shape.queries` is the number of new positions of a sample.
  Tensor attend(const Mesh& mesh, const std::string& layer, kernels::AttentionShape shape,
                const Tensor& q, const kernels::HeadColumns& columns, const Tensor& kv);

 private:
  /// Rows are (sample, position), with room for `capacity` positions of each sample.
  struct Stored {
    Tensor rows;
    std::int64_t capacity = 0;
  };
  Stored& with_room(const std::string& layer, std::int64_t samples, std::int64_t positions,
                    const Tensor& like);

  std::int64_t length_ = 0;
  std::map<std::string, Stored> layers_;
};

}  // namespace fourfold::nn
