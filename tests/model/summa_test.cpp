// A whole GPT by SUMMA, in two and a half dimensions, against one process: logits, loss and the
// gradients of all parameters. And what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/model/fit.hpp"

#include "tests/model/compare.hpp"

namespace fourfold::test {
namespace {

using model::GptSpec;
using nn::ProductKind;

/// A vocabulary that does not divide.
GptSpec spec_of(std::int64_t heads, std::int64_t layers = 2) {
  GptSpec spec;
  spec.vocabulary = 37;
  spec.width = 4 * heads;
  spec.heads = heads;
  spec.layers = layers;
  spec.context = 5;
  spec.dropout = 0.2;
  spec.execution.product = ProductKind::kSumma;
  spec.execution.precision = nn::Precision::float64();
  spec.execution.seed = 11;
  return spec;
}

/// Tied and not, kept and computed again, in one pass and in two.
void run_settings(const grid::Sizes& sizes, std::int64_t heads, std::int64_t samples) {
  for (const bool tied : {true, false}) {
    for (const bool checkpoint : {false, true}) {
      for (const std::int64_t passes : {1, 2}) {
        Case c{.sizes = sizes, .spec = spec_of(heads), .samples = samples * passes};
        c.passes = passes;
        c.spec.tied = tied;
        c.spec.execution.checkpoint = checkpoint;
        run_case(c);
      }
    }
  }
}

TEST(SummaGpt, OneRankEqualsSerial) {
  run_settings({}, 3, 2);
}

TEST(SummaGpt, TwoDimensionsEqualSerial) {
  run_settings({.x = 2, .y = 2}, 4, 4);
  run_settings({.x = 3, .y = 3}, 3, 3);
}

/// Whose depth splits the batch.
TEST(SummaGpt, TwoAndAHalfDimensionsEqualSerial) {
  run_settings({.x = 2, .y = 2, .z = 2}, 4, 8);
  run_settings({.z = 3}, 3, 3);
}

TEST(SummaGpt, WithDataEqualsSerial) {
  run_settings({.x = 2, .y = 2, .data = 2}, 4, 4);
  run_settings({.x = 2, .y = 2, .z = 2, .data = 2}, 2, 8);
}

TEST(SummaGpt, LargerGridsEqualSerial) {
  run_case({.sizes = {.x = 4, .y = 4}, .spec = spec_of(8, 1), .samples = 4});
  run_case({.sizes = {.x = 3, .y = 3, .z = 2}, .spec = spec_of(6, 1), .samples = 6});
  run_case({.sizes = {.x = 3, .y = 3, .z = 3}, .spec = spec_of(3, 1), .samples = 9});
}

TEST(SummaGpt, WithoutDropout) {
  Case c{.sizes = {.x = 2, .y = 2, .z = 2}, .spec = spec_of(4), .samples = 4, .training = false};
  run_case(c);
}

TEST(SummaGpt, FloatIsNearFloat64) {
  Case c{.sizes = {.x = 2, .y = 2, .z = 2},
         .spec = spec_of(4),
         .samples = 8,
         .tolerance = 1e-4,
         .loss_tolerance = 1e-5};
  c.spec.execution.precision = nn::Precision::float32();
  run_case(c);
}

/// What every rank of the grid says, which must be the same; "accepted" if nothing.
std::string refusal(const grid::Sizes& sizes, const GptSpec& spec, std::int64_t samples) {
  const grid::Grid grid(sizes);
  std::string first;
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    std::string said = "accepted";
    comm::World world = comm::recording::open(rank, grid.ranks());
    const tensor::Mesh mesh(world, grid);
    try {
      const model::Gpt gpt(mesh, spec, samples);
    } catch (const ConfigError& error) {
      said = error.what();
    }
    if (rank == 0) first = said;
    EXPECT_EQ(said, first) << "rank " << rank;
  }
  return first;
}

TEST(SummaGpt, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal({.x = 2, .y = 4}, spec_of(4), 8),
            "SUMMA multiplies on a square of ranks: x=2 and y=4 must be equal; with as many ranks "
            "these grids work: data=8 or z=2,data=4 or z=4,data=2 or z=8 or x=2,y=2,data=2 or "
            "x=2,y=2,z=2");
  EXPECT_EQ(refusal({.x = 3, .y = 3}, spec_of(4), 3),
            "4 heads cannot be split over x=3; with as many ranks these grids work: "
            "none; change the ranks, the batch or the heads");
  GptSpec spec = spec_of(3);
  EXPECT_EQ(refusal({.x = 2, .y = 2}, spec, 4),
            "3 heads cannot be split over x=2; with as many ranks these grids work: "
            "data=4 or z=2,data=2 or z=4");
  EXPECT_EQ(refusal({.x = 2, .y = 2, .z = 2}, spec_of(4), 6),
            "with SUMMA a batch of 6 samples cannot be split over data=1 times z=2 times y=2; with "
            "as many ranks these grids work: none; change the ranks, the batch or the heads");
  spec = spec_of(4);
  spec.execution.activations = nn::Activations::kReplicated;
  EXPECT_EQ(refusal({.x = 2, .y = 2}, spec, 4),
            "SUMMA splits activations over all ranks: they cannot be replicated");
}

/// Of 16 ranks: those that are named are all that are accepted.
TEST(SummaGpt, FitsExactlyTheGridsThatItSays) {
  const GptSpec spec = spec_of(4, 1);
  const auto fitting = model::fitting_grids(model::GptModel(spec), 16, 8);
  for (const grid::Sizes& sizes : grid::factorisations(
           16, {grid::Axis::kX, grid::Axis::kY, grid::Axis::kZ, grid::Axis::kData})) {
    const bool named = std::find(fitting.begin(), fitting.end(), sizes) != fitting.end();
    EXPECT_EQ(refusal(sizes, spec, 8) == "accepted", named) << grid::Grid(sizes);
  }
  EXPECT_EQ(fitting.size(), 4);  // 2x2 with z*data=4 three times (8 samples over y=2), and 4x4
}

}  // namespace
}  // namespace fourfold::test
