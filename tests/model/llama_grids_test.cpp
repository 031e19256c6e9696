// A whole Llama on every grid against one process: logits, loss and the gradients of all
// parameters.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/model/compare.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using model::LlamaSpec;
using nn::Activations;

/// Sizes that do not divide: the vocabulary by anything, the weights' rows by z. Two ranks or more
/// share a head of keys and values wherever x times y is 4 or 8.
LlamaSpec small_spec(std::int64_t kv_heads = 2) {
  LlamaSpec spec;
  spec.vocabulary = 37;
  spec.width = 32;
  spec.heads = 8;
  spec.kv_heads = kv_heads;
  spec.hidden = 40;
  spec.layers = 2;
  spec.context = 8;
  spec.rotary.theta = 500;
  spec.execution.precision = nn::Precision::float64();
  spec.execution.seed = 11;
  return spec;
}

class LlamaOnGridsOf8 : public testing::TestWithParam<grid::Sizes> {};

TEST_P(LlamaOnGridsOf8, ShardedEqualsSerial) {
  run_case(LlamaCase{.sizes = GetParam(), .spec = small_spec()});
}

TEST_P(LlamaOnGridsOf8, ReplicatedEqualsSerial) {
  LlamaCase c{.sizes = GetParam(), .spec = small_spec()};
  c.spec.execution.activations = Activations::kReplicated;
  c.spec.tied = true;
  run_case(c);
}

TEST_P(LlamaOnGridsOf8, CheckpointedPassesEqualSerial) {
  LlamaCase c{.sizes = GetParam(), .spec = small_spec(), .samples = 16, .passes = 2};
  c.spec.execution.checkpoint = true;
  c.spec.rotary.scaling = kernels::RotaryScaling{.factor = 8,
                                                 .low_freq_factor = 1,
                                                 .high_freq_factor = 4,
                                                 .original_max_position_embeddings = 64};
  run_case(c);
}

TEST_P(LlamaOnGridsOf8, AnyNumberOfKvHeadsEqualsSerial) {
  for (const std::int64_t kv_heads : {1, 4, 8}) {
    LlamaCase c{.sizes = GetParam(), .spec = small_spec(kv_heads)};
    c.spec.width = 64;  // a head of 8 columns can be cut into 8 slices
    run_case(c);
  }
}

std::string name_of(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

INSTANTIATE_TEST_SUITE_P(Llama, LlamaOnGridsOf8,
                         testing::ValuesIn(grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ,
                                                                    Axis::kData})),
                         name_of);

/// Heads that do not divide: 3 query heads share a head of 8 columns, which cannot be cut in 3.
TEST(LlamaGrids, KeysAndValuesThatCannotBeSliced) {
  LlamaSpec spec = small_spec();
  spec.width = 48;
  spec.heads = 6;
  for (const grid::Sizes& sizes :
       {grid::Sizes{}, grid::Sizes{.y = 2}, grid::Sizes{.x = 2}, grid::Sizes{.x = 2, .y = 2}}) {
    run_case(LlamaCase{.sizes = sizes, .spec = spec});
  }
}

/// Three of the six ranks of 2 x 3 share a head of keys and values: one row and a half of the next.
TEST(LlamaGrids, RanksThatShareNeedNotFillAnAxis) {
  LlamaSpec spec = small_spec();
  spec.width = 36;
  spec.heads = 6;
  spec.hidden = 48;
  for (const grid::Sizes& sizes : {grid::Sizes{.x = 2, .y = 3}, grid::Sizes{.x = 3, .y = 2}}) {
    run_case(LlamaCase{.sizes = sizes, .spec = spec, .samples = 6});
  }
}

TEST(LlamaGrids, OnASquareBySumma) {
  for (const std::int64_t kv_heads : {1, 2, 8}) {
    LlamaSpec spec = small_spec(kv_heads);
    spec.width = 64;
    spec.execution.product = nn::ProductKind::kSumma;
    for (const grid::Sizes& sizes :
         {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.x = 2, .y = 2, .z = 2}}) {
      run_case(LlamaCase{.sizes = sizes, .spec = spec});
    }
  }
}

TEST(LlamaGrids, OfManyRanks) {
  LlamaSpec spec = small_spec();
  spec.heads = 4;
  run_case(LlamaCase{.sizes = {.x = 4, .y = 4, .z = 4}, .spec = spec, .samples = 16});
  spec.width = 54;
  spec.heads = 9;
  spec.kv_heads = 3;
  spec.hidden = 42;
  spec.context = 9;
  run_case(LlamaCase{.sizes = {.x = 3, .y = 3, .z = 3}, .spec = spec, .samples = 9});
}

}  // namespace
}  // namespace fourfold::test
