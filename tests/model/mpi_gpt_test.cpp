// A GPT on processes instead of threads: some grids of 8, in both settings, in one job.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/model/compare.hpp"

namespace fourfold::test {
namespace {

Case small_case() {
  Case c;
  c.spec.vocabulary = 37;
  c.spec.width = 24;
  c.spec.heads = 8;
  c.spec.layers = 2;
  c.spec.context = 8;
  c.spec.dropout = 0.2;
  c.spec.execution.precision = nn::Precision::float64();
  return c;
}

TEST(MpiGpt, EqualsSerial) {
  on_mpi([](comm::World& world) {
    Case c = small_case();
    for (const grid::Sizes& sizes :
         {grid::Sizes{.x = 2, .y = 2, .z = 2}, grid::Sizes{.x = 4, .z = 2},
          grid::Sizes{.y = 2, .z = 2, .data = 2}}) {
      for (const auto activations : {nn::Activations::kSharded, nn::Activations::kReplicated}) {
        c.sizes = sizes;
        c.spec.execution.activations = activations;
        c.spec.execution.checkpoint = activations == nn::Activations::kReplicated;
        check_case(world, c);
      }
    }
  });
}

TEST(MpiGpt, SummaEqualsSerial) {
  on_mpi([](comm::World& world) {
    Case c = small_case();
    c.spec.execution.product = nn::ProductKind::kSumma;
    for (const grid::Sizes& sizes :
         {grid::Sizes{.x = 2, .y = 2, .z = 2}, grid::Sizes{.x = 2, .y = 2, .data = 2}}) {
      c.sizes = sizes;
      c.spec.execution.checkpoint = sizes.z == 1;
      check_case(world, c);
    }
  });
}

}  // namespace
}  // namespace fourfold::test
