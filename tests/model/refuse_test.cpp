// Models that do not fit their grid are refused with a line that says what to change; and what
// attention does when its heads do not divide.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"

#include "tests/model/compare.hpp"

namespace fourfold::test {
namespace {

using model::GptSpec;
using nn::Activations;

GptSpec spec_of(std::int64_t heads, std::int64_t width) {
  GptSpec spec;
  spec.vocabulary = 37;
  spec.width = width;
  spec.heads = heads;
  spec.layers = 2;
  spec.context = 6;
  spec.dropout = 0.2;
  spec.execution.precision = nn::Precision::float64();
  spec.execution.seed = 11;
  return spec;
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
  EXPECT_EQ(first.find('\n'), std::string::npos) << first;
  return first;
}

TEST(Refuse, HeadsThatDivideNeitherWay) {
  // 3 heads over 2 times 2: neither over both nor over y.
  EXPECT_EQ(refusal({.x = 2, .y = 2}, spec_of(3, 12), 4),
            "3 heads cannot be split over x=2 times y=2, nor 4 samples of a rank over x; with as "
            "many ranks these grids work: data=4 or z=2,data=2 or z=4 or x=2,data=2 or x=2,z=2 or "
            "x=4");
  // Over y, but a rank's one sample not over x.
  const std::string message = refusal({.x = 2, .y = 3, .z = 2}, spec_of(3, 12), 2);
  EXPECT_NE(message.find("3 heads cannot be split over x=2 times y=3, nor 1 samples"),
            std::string::npos)
      << message;
}

/// The grids that a refusal recommends.
std::vector<std::string> recommended(const std::string& message) {
  const std::string start = "these grids work: ";
  const std::size_t found = message.find(start);
  if (found == std::string::npos) return {};
  std::vector<std::string> grids;
  std::string rest = message.substr(found + start.size());
  rest = rest.substr(0, rest.find(" and others"));
  while (!rest.empty()) {
    const std::size_t end = rest.find(" or ");
    grids.push_back(rest.substr(0, end));
    rest = end == std::string::npos ? "" : rest.substr(end + 4);
  }
  return grids;
}

TEST(Refuse, TheGridsThatItNamesWork) {
  const GptSpec spec = spec_of(6, 24);
  // With 8 samples some grids have the right heads and too many groups of samples.
  for (const std::int64_t samples : {16, 8}) {
    const std::string message = refusal({.x = 1, .y = 16}, spec, samples);
    const std::vector<std::string> grids = recommended(message);
    EXPECT_EQ(grids.size(), 6) << message;
    EXPECT_NE(message.find(" and others"), std::string::npos) << message;
    for (const std::string& one : grids) {
      EXPECT_EQ(refusal(grid::parse_sizes(one), spec, samples), "accepted") << one;
    }
  }
}

TEST(Refuse, SaysWhenNoGridWorks) {
  const std::string message = refusal({.x = 2, .y = 3, .z = 2}, spec_of(3, 12), 2);
  EXPECT_NE(message.find("these grids work: none; change the ranks, the batch or the heads"),
            std::string::npos)
      << message;
}

TEST(Refuse, SizesOfZero) {
  EXPECT_EQ(refusal({}, spec_of(0, 12), 4), "the model's heads must be at least 1, not 0");
}

TEST(Refuse, BatchesThatDataTimesZDoesNotDivide) {
  EXPECT_EQ(
      refusal({.z = 2, .data = 2}, spec_of(4, 8), 6),
      "a batch of 6 samples cannot be split over data=2 times z=2: it must be a multiple of 4; "
      "with as many ranks these grids work: y=2,data=2 or y=2,z=2 or y=4 or x=2,data=2 or "
      "x=2,z=2 or x=2,y=2 and others");
}

TEST(Refuse, RowsThatDoNotDivideUnlessReplicated) {
  GptSpec spec = spec_of(10, 20);
  EXPECT_EQ(refusal({.y = 5}, spec, 1),
            "the 6 rows (samples times context) of a rank cannot be split over y=5: change the "
            "context or the batch, or use replicated activations; with as many ranks these grids "
            "work: none; change the ranks, the batch or the heads");
  const std::string along_x = refusal({.x = 5}, spec, 1);
  EXPECT_NE(along_x.find("split over x=5"), std::string::npos) << along_x;
  EXPECT_EQ(refusal({.y = 5}, spec, 5), "accepted");
  spec.execution.activations = Activations::kReplicated;
  EXPECT_EQ(refusal({.y = 5}, spec, 1), "accepted");
  EXPECT_EQ(refusal({.x = 5}, spec, 1), "accepted");
}

TEST(Refuse, WidthsThatAreNoMultipleOfTheHeads) {
  EXPECT_EQ(refusal({}, spec_of(5, 12), 4), "a width of 12 is not a multiple of 5 heads");
}

TEST(Refuse, WidthsThatXDoesNotDivide) {
  const std::string message = refusal({.x = 5}, spec_of(1, 12), 5);
  EXPECT_NE(message.find("12 inputs cannot be split over x=5"), std::string::npos) << message;
}

TEST(Refuse, GridsOfAnotherSizeThanTheWorld) {
  comm::World world = comm::recording::open(0, 6);
  try {
    const tensor::Mesh mesh(world, grid::Grid({.x = 2, .y = 2}));
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "the grid x=2 y=2 z=1 data=1 pipe=1 (4 ranks) needs 4 ranks, and there are 6");
  }
}

class HeadsThatDoNotDivide : public testing::TestWithParam<Activations> {};

/// 3 heads over x=2 times y=3: the samples are split over x instead.
TEST_P(HeadsThatDoNotDivide, SplitSamplesAndEqualSerial) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .y = 3}, grid::Sizes{.x = 2, .z = 2}, grid::Sizes{.x = 4, .y = 3}}) {
    Case c{.sizes = sizes, .spec = spec_of(3, 12), .samples = 4};
    c.spec.execution.activations = GetParam();
    ASSERT_EQ(nn::head_split(c.spec.execution.product, c.spec.heads, sizes),
              nn::HeadSplit::kSamples);
    run_case(c);
    c.spec.execution.checkpoint = true;
    run_case(c);
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, HeadsThatDoNotDivide,
                         testing::Values(Activations::kSharded, Activations::kReplicated),
                         [](const auto& chosen) {
                           return chosen.param == Activations::kSharded ? "Sharded" : "Replicated";
                         });

}  // namespace
}  // namespace fourfold::test
