// The picture of a predicted step against the prediction itself.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/predict.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "fourfold/model/stages.hpp"
#include "fourfold/planner/workload.hpp"
#include "fourfold/train/setup.hpp"

#include "tests/planner/small_search.hpp"

namespace fourfold::test {
namespace {

/// Of the place that takes longest.
Seconds length_of(const std::vector<report::RankTrace>& traces) {
  Seconds longest;
  for (const report::RankTrace& trace : traces) {
    const comm::Timeline::Step& step = trace.steps.at(0);
    longest = std::max(longest, step.end - step.begin);
  }
  return longest;
}

Candidate pipeline_of(int places, int chunks, std::int64_t micro_batch) {
  Candidate candidate;
  candidate.sizes = {.pipe = places};
  candidate.chunks = chunks;
  candidate.micro_batch = micro_batch;
  return candidate;
}

/// The stages have different numbers of blocks: the blocks cannot be divided, or the head costs as
/// much as many of them.
TEST(Timeline, ShowsTheStepOfStagesThatAreNotAlike) {
  Config odd = config_of();
  odd.model.layers = 5;
  odd.train.batch = 16;
  Config heavy = odd;
  heavy.model.layers = 16;
  heavy.model.vocab = 2048;
  const cluster::Cluster cluster = slow_cluster(1e8);
  for (const Config& config : {odd, heavy}) {
    for (const int chunks : {1, 2}) {
      const Candidate candidate = pipeline_of(2, chunks, 2);
      const std::int64_t layers = config.model.layers;
      const std::vector<std::int64_t> stages =
          model::balanced(layers, 2 * chunks, 0, planner::workload_of(config).head_in_blocks);
      const auto [least, most] = std::minmax_element(stages.begin(), stages.end());
      ASSERT_LT(*least, *most);
      const planner::Recorded whole = planner::record(config, candidate, {*least, 8, 2});
      const Seconds expected =
          plan::replay(whole.places, grid::Grid(candidate.sizes), cluster).step;
      const Evaluation::Traced traced = planner::timeline_of(config, candidate, cluster);
      EXPECT_TRUE(traced.whole);
      EXPECT_NEAR(length_of(traced.traces) / expected, 1, 1e-3) << layers << " layers, " << chunks;
      const Predicted found = Evaluation(config, candidate).price(candidate.placement, cluster);
      EXPECT_NEAR(length_of(traced.traces) / found.step, 1, 0.08)
          << layers << " layers, " << chunks;
    }
  }
}

/// Its blocks are not alike, and all of them are recorded, in a pipeline as well.
TEST(Timeline, OfAUNetHasAllItsBlocks) {
  const Config config = unet_config();
  const Candidate candidate = pipeline_of(2, 1, 2);
  const train::Recipe recipe = train::recipe_of(planner::apply(config, candidate));
  const planner::Reduced whole = planner::whole_step(recipe, candidate);
  EXPECT_EQ(whole.blocks, recipe.model->blocks());
  EXPECT_EQ(whole.passes, 4);
  EXPECT_EQ(whole.places, 2);
}

}  // namespace
}  // namespace fourfold::test
