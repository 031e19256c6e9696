// Causal self-attention on whole sequences and some of the heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

/// Which part of the attention a rank computes.
struct AttentionShape {
  std::int64_t samples = 0;  ///< here
  std::int64_t context = 0;
  std::int64_t heads = 0;  ///< here
  std::int64_t head_size = 0;

  // For dropout, which is a function of the place in the whole: numbers of the first sample and
  // head that are here, and how many heads there are in all.
  std::int64_t first_sample = 0;
  std::int64_t first_head = 0;
  std::int64_t all_heads = 0;
  double dropout = 0;
  tensor::Key key;

  std::string_view layer{};  ///< its name, which outlives the graph
};

/// `qkv` has a row for each (sample, position) and columns [head][q|k|v][head_size]; the result has
/// columns [head][head_size]. Computed block by block of queries: what lies above the diagonal is
/// skipped, and the scores are never there as a whole. Keeps its output and a number for each row
/// and head, and computes the scores again for the gradient: memory is linear in the context.
Tensor causal_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape);

}  // namespace fourfold::nn
