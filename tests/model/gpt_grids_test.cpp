// A whole GPT on every grid against one process: logits, loss and the gradients of all parameters.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/model/compare.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using model::GptSpec;
using nn::Activations;

/// Sizes that do not divide: the vocabulary by anything, the weights' rows by z.
GptSpec small_spec() {
  GptSpec spec;
  spec.vocabulary = 37;
  spec.width = 24;
  spec.heads = 8;
  spec.layers = 2;
  spec.context = 8;
  spec.dropout = 0.2;
  spec.execution.precision = nn::Precision::float64();
  spec.execution.seed = 11;
  return spec;
}

class EveryGridOf8 : public testing::TestWithParam<grid::Sizes> {};

TEST_P(EveryGridOf8, ShardedEqualsSerial) {
  run_case({.sizes = GetParam(), .spec = small_spec()});
}

TEST_P(EveryGridOf8, ReplicatedEqualsSerial) {
  Case c{.sizes = GetParam(), .spec = small_spec()};
  c.spec.execution.activations = Activations::kReplicated;
  run_case(c);
}

TEST_P(EveryGridOf8, CheckpointedEqualsSerial) {
  for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
    Case c{.sizes = GetParam(), .spec = small_spec()};
    c.spec.execution.activations = activations;
    c.spec.execution.checkpoint = true;
    c.spec.tied = false;
    run_case(c);
  }
}

TEST_P(EveryGridOf8, PassesAddUp) {
  for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
    Case c{.sizes = GetParam(), .spec = small_spec(), .samples = 16, .passes = 2};
    c.spec.execution.activations = activations;
    run_case(c);
  }
}

std::string name_of(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

INSTANTIATE_TEST_SUITE_P(Gpt, EveryGridOf8,
                         testing::ValuesIn(grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ,
                                                                    Axis::kData})),
                         name_of);

TEST(GptGrids, OneRankEqualsPlainLibtorch) {
  run_case({.sizes = {}, .spec = small_spec()});
}

}  // namespace
}  // namespace fourfold::test
