// Attention on real tensors, head by head: causal, or of all positions to all. Query heads may
// share heads of keys and values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/heads.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

struct AttentionShape {
  std::int64_t samples = 0;
  std::int64_t queries = 0;   ///< of a sample: its last positions, which attend to all before them
  std::int64_t keys = 0;      ///< of a sample
  std::int64_t heads = 0;     ///< of queries
  std::int64_t kv_heads = 0;  ///< divides `heads`; query head h uses h / (heads / kv_heads)
  std::int64_t head_size = 0;
  bool causal = true;  ///< otherwise all queries attend to all keys

  // These are for dropout, which is a function of the place in the whole tensor: the numbers of the
  // first sample and head here, and the number of all heads.
  std::int64_t first_sample = 0;
  std::int64_t first_head = 0;
  std::int64_t all_heads = 0;
  double dropout = 0;
  Key key{};
};

/// The heads of the queries, of the keys or of the values, in some columns of a matrix of float or
/// double. The matrix has a row for each (sample, position), and the elements of a row lie one
/// after the other.
struct Heads {
  Tensor matrix;
  HeadColumns columns{};
  std::int64_t sample_rows = 0;  ///< from a sample to the next, where there are rows in between
};

/// They may be columns of one matrix.
struct QueryKeyValue {
  Heads q;
  Heads k;
  Heads v;
};

/// out: (samples·queries) × (heads·head_size); logsum: samples × heads × queries. Both are
/// contiguous.
void attention_forward(const AttentionShape& shape, const QueryKeyValue& qkv, Tensor& out,
                       Tensor& logsum);

/// Writes the gradients. There must be as many queries as keys.
void attention_backward(const AttentionShape& shape, const QueryKeyValue& qkv, const Tensor& out,
                        const Tensor& logsum, const Tensor& dout, const QueryKeyValue& gradients);

/// The number of pairs of query and key that are computed for one head of one sample: if attention
/// is causal, those of the blocks that are not entirely above the diagonal.
std::int64_t computed_scores(std::int64_t queries, std::int64_t keys, bool causal = true);

/// The number of elements of temporary memory.
std::int64_t attention_scratch(const AttentionShape& shape, bool backward);

}  // namespace fourfold::kernels
