// Self-attention on whole sequences and some of the heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/kv_cache.hpp"

namespace fourfold::nn {

/// The part of the attention that a rank computes.
struct AttentionShape {
  std::int64_t samples = 0;  ///< on this rank
  std::int64_t context = 0;
  std::int64_t heads = 0;  ///< on this rank
  std::int64_t head_size = 0;

  // These are for dropout, which is a function of the place in the whole tensor: the numbers of the
  // first sample and head on this rank, and the number of all heads.
  std::int64_t first_sample = 0;
  std::int64_t first_head = 0;
  std::int64_t all_heads = 0;
  double dropout = 0;
  kernels::Key key{};

  std::string_view layer{};  ///< the name of the layer; its text must outlive the graph
};

/// `qkv` has a row for each (sample, position) and columns [head][q|k|v][head_size]. The result has
/// columns [head][head_size]. It is computed block by block of queries. Blocks above the diagonal
/// are skipped, and the whole matrix of scores is never materialised. The function keeps its output
/// and a number for each row and head, and computes the scores again for the gradient: memory is
/// linear in the context.
Tensor causal_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape);

/// The same, where every position attends to all positions of its sample.
Tensor full_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape);

/// Causal attention for new positions of texts whose earlier positions are in `cache`.
Tensor cached_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape,
                        KvCache& cache);

}  // namespace fourfold::nn
