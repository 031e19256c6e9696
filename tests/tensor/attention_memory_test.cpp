// Attention by libtorch's operations on samples so long that their scores are not in memory at
// once: what it computes, and what memory it takes. SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "fourfold/kernels/functions.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;

struct Attention {
  Tensor out;
  Tensor logsum;
  Tensor gradient;  // of queries, keys and values, side by side
};

Attention compute(const kernels::Functions& way, const kernels::AttentionShape& s,
                  const Tensor& qkv, const Tensor& upstream) {
  const auto heads_in = [&](const Tensor& all) {
    const auto part = [&](std::int64_t first, std::int64_t count) {
      return kernels::Heads{all.narrow(1, first * s.head_size, count * s.head_size),
                            {.stride = s.head_size}};
    };
    return kernels::QueryKeyValue{part(0, s.heads), part(s.heads, s.kv_heads),
                                  part(s.heads + s.kv_heads, s.kv_heads)};
  };
  Attention result{at::empty_like(upstream), at::empty({s.samples, s.heads, s.queries}, at::kFloat),
                   at::empty_like(qkv)};
  way.attention_forward(s, heads_in(qkv), result.out, result.logsum);
  way.attention_backward(s, heads_in(qkv), result.out, result.logsum, upstream,
                         heads_in(result.gradient));
  return result;
}

void check(bool causal, double dropout) {
  constexpr std::int64_t kPositions = 3000;
  const kernels::AttentionShape s{.samples = 1,
                                  .queries = kPositions,
                                  .keys = kPositions,
                                  .heads = 2,
                                  .kv_heads = 1,
                                  .head_size = 8,
                                  .causal = causal,
                                  .all_heads = 2,
                                  .dropout = dropout,
                                  .key = kernels::key_of(4, "attention")};
  at::manual_seed(5);
  const Tensor qkv = at::randn({kPositions, 4 * s.head_size}, at::kFloat);
  const Tensor upstream = at::randn({kPositions, 2 * s.head_size}, at::kFloat);
  const Attention expected = compute(kernels::cpu::kFunctions, s, qkv, upstream);
  const tensor::MemoryMeter meter;
  const tensor::MemoryMeter::Counting counting(meter);
  const Attention found = compute(kernels::aten::kFunctions, s, qkv, upstream);
  const auto error = [](const Tensor& a, const Tensor& b) {
    return ((a - b).abs().max() / b.abs().max()).item<double>();
  };
  const Bytes peak = meter.at_peak().total();
  EXPECT_LT(error(found.out, expected.out), 1e-5);
  EXPECT_LT(error(found.logsum, expected.logsum), 1e-5);
  EXPECT_LT(error(found.gradient, expected.gradient), 1e-5);
  // All scores of the sample would take 72 MB, several times.
  EXPECT_LT(peak, Bytes(80 << 20)) << to_string(peak);
}

TEST(AttentionOfLibtorch, OfLongSamplesTakesLittleMemory) {
  for (const bool causal : {true, false}) {
    for (const double dropout : {0.0, 0.1}) check(causal, dropout);
  }
}

}  // namespace
}  // namespace fourfold::test
