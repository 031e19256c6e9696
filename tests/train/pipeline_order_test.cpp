// The order of a pipeline's passes, and how a model is cut for it.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/pipeline_order.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/model/stages.hpp"

namespace fourfold::test {
namespace {

using train::pipeline_units;
using train::Unit;

/// Runs the units of all places: each as soon as what it needs is there. Returns when the last has
/// ended, with 1 for a forward and 2 for a backward pass; negative when they wait for each other.
std::int64_t time_of(int places, int chunks, std::int64_t micro_batches) {
  std::vector<std::vector<Unit>> units;
  for (int place = 0; place < places; ++place) {
    units.push_back(pipeline_units(places, place, chunks, micro_batches));
  }
  const int stages = places * chunks;
  std::map<std::tuple<bool, int, std::int64_t>, std::int64_t> ends;  // by direction and stage
  std::vector<std::size_t> next(units.size(), 0);
  std::vector<std::int64_t> now(units.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t place = 0; place < units.size(); ++place) {
      if (next[place] == units[place].size()) continue;
      const Unit& unit = units[place][next[place]];
      const int stage = unit.chunk * places + static_cast<int>(place);
      std::int64_t ready = 0;
      const bool starts = unit.forward && stage == 0;
      if (!starts) {
        const bool turns = !unit.forward && stage == stages - 1;
        const int from = turns ? stage : stage + (unit.forward ? -1 : 1);
        const auto found = ends.find({turns || unit.forward, from, unit.micro_batch});
        if (found == ends.end()) continue;
        ready = found->second;
      }
      now[place] = std::max(now[place], ready) + (unit.forward ? 1 : 2);
      ends[{unit.forward, stage, unit.micro_batch}] = now[place];
      ++next[place];
      moved = true;
    }
  }
  for (std::size_t place = 0; place < units.size(); ++place) {
    if (next[place] != units[place].size()) return -1;
  }
  return *std::max_element(now.begin(), now.end());
}

TEST(PipelineOrder, EveryPassOnceAndBackwardAfterForward) {
  for (const int places : {2, 3, 4, 8}) {
    for (const int chunks : {1, 2, 3}) {
      for (const std::int64_t passes : {std::int64_t{places}, std::int64_t{3 * places}}) {
        for (int place = 0; place < places; ++place) {
          const std::vector<Unit> units = pipeline_units(places, place, chunks, passes);
          EXPECT_EQ(static_cast<std::int64_t>(units.size()), 2 * chunks * passes);
          std::map<std::pair<int, std::int64_t>, int> seen;
          for (const Unit& unit : units) {
            int& state = seen[{unit.chunk, unit.micro_batch}];
            EXPECT_EQ(state, unit.forward ? 0 : 1);
            ++state;
          }
          EXPECT_EQ(static_cast<std::int64_t>(seen.size()), chunks * passes);
        }
      }
    }
  }
}

TEST(PipelineOrder, NoMorePassesUnderWayThanPlaces) {
  for (const int places : {2, 4, 7}) {
    for (int place = 0; place < places; ++place) {
      std::int64_t open = 0;
      std::int64_t most = 0;
      for (const Unit& unit : pipeline_units(places, place, 1, 20)) {
        open += unit.forward ? 1 : -1;
        most = std::max(most, open);
      }
      EXPECT_EQ(most, places - place);
    }
  }
}

TEST(PipelineOrder, IdleOnlyAtBothEndsAndLessWithChunks) {
  for (const int places : {2, 3, 4, 8}) {
    for (const std::int64_t passes : {std::int64_t{places}, std::int64_t{4 * places}}) {
      // All passes of one place, and a way through the others and back.
      EXPECT_EQ(time_of(places, 1, passes), 3 * passes + 3 * (places - 1));
      // In units of a chunk: the idle time is that of one chunk, not of a whole stage.
      for (const int chunks : {2, 3}) {
        EXPECT_EQ(time_of(places, chunks, passes), 3 * passes * chunks + 3 * (places - 1))
            << places << " places, " << chunks << " chunks, " << passes << " passes";
      }
    }
  }
  for (const std::int64_t passes : {1, 2, 3, 5}) EXPECT_GT(time_of(4, 1, passes), 0);
}

TEST(PipelineOrder, ChunksNeedWholeGroups) {
  EXPECT_THROW(static_cast<void>(pipeline_units(4, 0, 2, 6)), InvariantError);
}

TEST(Balanced, EvenSharesAndHeavyEnds) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(model::balanced(8, 4, 0, 0), (Sizes{2, 2, 2, 2}));
  EXPECT_EQ(model::balanced(5, 1, 0, 3), (Sizes{5}));
  EXPECT_EQ(model::balanced(5, 2, 0, 0), (Sizes{2, 3}));
  EXPECT_EQ(model::balanced(5, 2, 0, 2), (Sizes{3, 2}));
  EXPECT_EQ(model::balanced(12, 4, 0, 3), (Sizes{3, 4, 4, 1}));
  EXPECT_EQ(model::balanced(4, 4, 0, 100), (Sizes{1, 1, 1, 1}));
  // Never worse than any other way.
  for (std::int64_t blocks = 3; blocks <= 12; ++blocks) {
    for (const double head : {0.0, 0.4, 1.0, 2.5, 7.0}) {
      const auto counts = model::balanced(blocks, 3, 0.3, head);
      const auto cost = [&](std::int64_t a, std::int64_t b) {
        return std::max({static_cast<double>(a) + 0.3, static_cast<double>(b),
                         static_cast<double>(blocks - a - b) + head});
      };
      double lowest = 1e9;
      for (std::int64_t a = 1; a <= blocks - 2; ++a) {
        for (std::int64_t b = 1; b <= blocks - a - 1; ++b) lowest = std::min(lowest, cost(a, b));
      }
      EXPECT_DOUBLE_EQ(cost(counts[0], counts[1]), lowest) << blocks << " " << head;
      EXPECT_EQ(counts[0] + counts[1] + counts[2], blocks);
    }
  }
}

TEST(Balanced, BlocksThatDiffer) {
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(model::balanced({1, 1, 1, 1}, 2), (Sizes{2, 2}));
  EXPECT_EQ(model::balanced({5, 1, 1, 1, 1, 1}, 2), (Sizes{1, 5}));
  EXPECT_EQ(model::balanced({1, 1, 1, 9}, 3), (Sizes{1, 2, 1}));
  EXPECT_EQ(model::balanced({3, 2, 4}, 1), (Sizes{3}));
  // Never worse than any other way.
  for (int seed = 1; seed <= 20; ++seed) {
    std::vector<double> costs;
    for (int i = 0; i < 9; ++i) costs.push_back((seed * 7 + i * i * (seed % 5 + 1)) % 11 + 0.5);
    const auto cost = [&](std::int64_t begin, std::int64_t end) {
      return std::accumulate(costs.begin() + begin, costs.begin() + end, 0.0);
    };
    const auto largest = [&](std::int64_t a, std::int64_t b) {
      return std::max({cost(0, a), cost(a, a + b), cost(a + b, 9)});
    };
    double lowest = 1e9;
    for (std::int64_t a = 1; a <= 7; ++a) {
      for (std::int64_t b = 1; b <= 8 - a; ++b) lowest = std::min(lowest, largest(a, b));
    }
    const auto counts = model::balanced(costs, 3);
    EXPECT_DOUBLE_EQ(largest(counts[0], counts[1]), lowest) << seed;
    EXPECT_EQ(counts[0] + counts[1] + counts[2], 9);
  }
}

TEST(Balanced, RefusesMoreStagesThanLayers) {
  try {
    static_cast<void>(model::balanced(3, 4, 0, 0));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "the pipeline has 4 stages and the model only 3 layers; choose a smaller "
                 "parallel.pipe or parallel.chunks");
  }
}

}  // namespace
}  // namespace fourfold::test
