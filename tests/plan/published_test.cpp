// The published model against values of the published formula.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/published.hpp"

#include <gtest/gtest.h>

#include "fourfold/cluster/load.hpp"

namespace fourfold::test {
namespace {

using plan::Published;
using plan::PublishedChoice;
using plan::PublishedGrid;
using plan::PublishedModel;

const PublishedModel k5B{.width = 4096, .layers = 24, .batch = 512};
const PublishedModel k20B{.width = 7168, .layers = 32, .batch = 1024};
const PublishedModel k80B{.width = 12288, .layers = 42, .batch = 2048};

/// What the search finds: its length, and some of its places.
struct Golden {
  PublishedModel model;
  int gpus;
  int least_tensor;
  Published variant;
  std::size_t configurations;
  PublishedChoice best;
  PublishedChoice second;
  PublishedChoice fifth;
};

PublishedModel with_batch(PublishedModel model, std::int64_t batch) {
  model.batch = batch;
  return model;
}

std::vector<Golden> goldens() {
  const auto as_published = Published::kAsPublished;
  const auto corrected = Published::kCorrected;
  std::vector<Golden> all;
  for (const Published variant : {as_published, corrected}) {
    all.push_back({k5B,
                   64,
                   4,
                   variant,
                   80,
                   {Seconds(0.3322), {1, 1, 64, 1}},
                   {Seconds(0.3551), {1, 1, 32, 2}},
                   {Seconds(0.5119), {1, 1, 4, 16}}});
    all.push_back({k20B,
                   256,
                   16,
                   variant,
                   145,
                   {Seconds(1.3727), {1, 1, 256, 1}},
                   {Seconds(1.3961), {1, 1, 128, 2}},
                   {Seconds(1.7227), {1, 1, 16, 16}}});
    all.push_back({k80B,
                   1024,
                   64,
                   variant,
                   230,
                   {Seconds(5.3104), {1, 1, 1024, 1}},
                   {Seconds(5.3329), {1, 1, 512, 2}},
                   {Seconds(5.6479), {1, 1, 64, 16}}});
  }
  const PublishedModel half = with_batch(k80B, 1024);
  all.push_back({half,
                 1024,
                 64,
                 as_published,
                 230,
                 {Seconds(5.3104), {1, 1, 1024, 1}},
                 {Seconds(5.3329), {1, 1, 512, 2}},
                 {Seconds(5.6479), {1, 1, 64, 16}}});
  all.push_back({half,
                 1024,
                 64,
                 corrected,
                 230,
                 {Seconds(4.7042), {8, 1, 128, 1}},
                 {Seconds(4.7112), {8, 1, 64, 2}},
                 {Seconds(4.8081), {8, 1, 8, 16}}});
  return all;
}

TEST(PublishedModel, FindsThePublishedConfigurations) {
  const cluster::Cluster perlmutter = cluster::load("perlmutter");
  for (const Golden& golden : goldens()) {
    const auto found = plan::published_search(golden.model, golden.gpus, golden.least_tensor,
                                              perlmutter, golden.variant);
    ASSERT_EQ(found.size(), golden.configurations);
    const auto expect = [](const PublishedChoice& choice, const PublishedChoice& expected) {
      EXPECT_EQ(choice.grid, expected.grid);
      EXPECT_NEAR(choice.time.value(), expected.time.value(), 5.1e-5);
    };
    expect(found[0], golden.best);
    expect(found[1], golden.second);
    expect(found[4], golden.fifth);
  }
}

TEST(PublishedModel, TheLongestTimesToo) {
  const cluster::Cluster perlmutter = cluster::load("perlmutter");
  const PublishedGrid columns{.column = 64};
  const auto time = [&](Published variant) {
    return plan::published_time(k5B, columns, perlmutter, variant).value();
  };
  EXPECT_NEAR(time(Published::kAsPublished), 75.6, 1e-9);
  EXPECT_NEAR(time(Published::kCorrected), 89.775, 1e-9);
}

TEST(PublishedModel, TheErrorIsInTheLastProductAlone) {
  // By hand, one layer of width w on two columns or two rows of a host, for a batch of b rows: with
  // 2 bytes a number, 4 b w is what an all_reduce of one width sends in a ring of two.
  cluster::Cluster perlmutter = cluster::load("perlmutter");
  const PublishedModel model{.width = 1024, .layers = 1, .context = 1024, .batch = 512};
  const double unit = 2.0 * 0.5 * 512 * 1024 * 1024 * 2 / (1 << 30) / 76;
  const auto time = [&](const PublishedGrid& grid, Published variant) {
    return plan::published_time(model, grid, perlmutter, variant).value();
  };
  // Columns: forward of QKV (3) and up (4), twice for recomputation; backward of projection (1) and
  // down (4).
  EXPECT_NEAR(time({.column = 2}, Published::kCorrected), (2 * 7 + 5) * unit, 1e-12);
  EXPECT_NEAR(time({.column = 2}, Published::kAsPublished), (2 * 7 + 2) * unit, 1e-12);
  // Rows: backward of QKV and up (1 each), forward of projection (1) and down (1).
  EXPECT_NEAR(time({.row = 2}, Published::kCorrected), (2 + 2 * 2) * unit, 1e-12);
  EXPECT_NEAR(time({.row = 2}, Published::kAsPublished), (2 + 2 * 5) * unit, 1e-12);
}

TEST(PublishedModel, AccumulationRepeatsWhatGoesOverDepthAlone) {
  const cluster::Cluster perlmutter = cluster::load("perlmutter");
  PublishedModel model = k5B;
  const PublishedGrid grid{.row = 2, .column = 2, .depth = 4, .data = 4};
  const PublishedGrid depth{.depth = 4};
  const auto time = [&](const PublishedGrid& sizes) {
    return plan::published_time(model, sizes, perlmutter, Published::kCorrected).value();
  };
  const double once = time(grid);
  const double depth_once = time(depth);
  model.accumulation = 3;
  EXPECT_NEAR(time(depth), 3 * depth_once, 1e-12);
  // Weights are cut by 4 and the bandwidth falls from that of a host's links to a fourth of 80
  // GB/s.
  EXPECT_NEAR(time(grid) - once, 2 * depth_once / 4 * 225 / 20, 1e-9);
}

TEST(PublishedModel, BandwidthOfGroups) {
  const cluster::Cluster perlmutter = cluster::load("perlmutter");
  const cluster::Cluster frontier = cluster::load("frontier");
  const auto speed = [](const cluster::Cluster& cluster, int inner, int size) {
    return plan::published_bandwidth(cluster, inner, size).value() / 1e9;
  };
  EXPECT_DOUBLE_EQ(speed(perlmutter, 1, 4), 225);
  EXPECT_DOUBLE_EQ(speed(perlmutter, 2, 2), 76);
  EXPECT_DOUBLE_EQ(speed(perlmutter, 1, 8), 80);
  EXPECT_DOUBLE_EQ(speed(perlmutter, 2, 4), 40);
  EXPECT_DOUBLE_EQ(speed(perlmutter, 4, 2), 20);
  EXPECT_DOUBLE_EQ(speed(perlmutter, 64, 2), 20);
  EXPECT_DOUBLE_EQ(speed(frontier, 4, 2), 36);
  EXPECT_DOUBLE_EQ(speed(frontier, 1, 16), 40);
  EXPECT_DOUBLE_EQ(speed(frontier, 8, 2), 5);
  EXPECT_DOUBLE_EQ(speed(frontier, 512, 2), 5);
}

TEST(PublishedModel, Search) {
  const cluster::Cluster perlmutter = cluster::load("perlmutter");
  const auto count = [&](std::int64_t batch, int gpus, int least) {
    return plan::published_search(with_batch(k5B, batch), gpus, least, perlmutter,
                                  Published::kCorrected)
        .size();
  };
  EXPECT_EQ(count(64, 1, 1), 1U);
  EXPECT_EQ(count(64, 8, 1), 20U);  // ways to write 8 = 2^3 as a product of four: C(6,3)
  EXPECT_EQ(count(64, 8, 2), 19U);
  EXPECT_EQ(count(1, 8, 1), 4U) << "one sequence: only rows and columns";
  EXPECT_EQ(count(64, 12, 1), 0U) << "no powers of two";
  EXPECT_EQ(count(64, 8, 16), 0U);
}

TEST(PublishedModel, GridsAreShown) {
  const PublishedGrid grid{.row = 8, .column = 2, .depth = 128, .data = 4};
  EXPECT_EQ(to_string(grid), "r8 c2 d128 dp4");
  EXPECT_EQ(grid.sizes(), (grid::Sizes{.x = 2, .y = 8, .z = 128, .data = 4}));
}

}  // namespace
}  // namespace fourfold::test
