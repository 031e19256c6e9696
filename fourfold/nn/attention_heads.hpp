// Causal attention on real tensors, head by head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/attention.hpp"

namespace fourfold::nn {

/// Tensors are float or double. out: (samples·context) × (heads·head_size); logsum: samples × heads
/// × context.
void attention_forward(const AttentionShape& shape, const Tensor& qkv, Tensor& out, Tensor& logsum);
void attention_backward(const AttentionShape& shape, const Tensor& qkv, const Tensor& out,
                        const Tensor& logsum, const Tensor& dout, Tensor& dqkv);

/// The number of pairs of query and key that are computed for one head of one sample: those of the
/// blocks that are not entirely above the diagonal.
std::int64_t computed_scores(std::int64_t context);

/// The number of elements of temporary memory.
std::int64_t attention_scratch(const AttentionShape& shape, bool backward);

}  // namespace fourfold::nn
