// A whole GPT on larger grids, and in float, against one process.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/model/compare.hpp"

namespace fourfold::test {
namespace {

using model::GptSpec;
using nn::Activations;

/// Four columns for each head.
GptSpec spec_of(std::int64_t heads, std::int64_t layers, std::int64_t context,
                std::int64_t vocabulary, Activations activations) {
  GptSpec spec;
  spec.vocabulary = vocabulary;
  spec.width = 4 * heads;
  spec.heads = heads;
  spec.layers = layers;
  spec.context = context;
  spec.dropout = 0.2;
  spec.execution.activations = activations;
  spec.execution.precision = nn::Precision::float64();
  spec.execution.seed = 11;
  return spec;
}

class LargerGrids : public testing::TestWithParam<Activations> {};

TEST_P(LargerGrids, Of12EqualSerial) {
  run_case(
      {.sizes = {.x = 2, .y = 3, .z = 2}, .spec = spec_of(6, 4, 6, 37, GetParam()), .samples = 4});
  run_case(
      {.sizes = {.x = 3, .y = 2, .z = 2}, .spec = spec_of(12, 1, 6, 37, GetParam()), .samples = 2});
}

TEST_P(LargerGrids, Of27EqualSerial) {
  run_case(
      {.sizes = {.x = 3, .y = 3, .z = 3}, .spec = spec_of(9, 2, 9, 37, GetParam()), .samples = 3});
}

TEST_P(LargerGrids, Of64EqualSerial) {
  run_case(
      {.sizes = {.x = 4, .y = 4, .z = 4}, .spec = spec_of(16, 1, 8, 53, GetParam()), .samples = 4});
}

TEST_P(LargerGrids, FloatIsNearFloat64) {
  Case c{.sizes = {.x = 2, .y = 2, .z = 2},
         .spec = spec_of(4, 2, 8, 37, GetParam()),
         .samples = 8,
         .tolerance = 1e-4,
         .loss_tolerance = 1e-5};
  c.spec.execution.precision = nn::Precision::float32();
  run_case(c);
}

INSTANTIATE_TEST_SUITE_P(Activations, LargerGrids,
                         testing::Values(Activations::kSharded, Activations::kReplicated),
                         [](const auto& chosen) {
                           return chosen.param == Activations::kSharded ? "Sharded" : "Replicated";
                         });

}  // namespace
}  // namespace fourfold::test
