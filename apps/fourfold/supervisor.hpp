// Starts the ranks of a training again when they fail.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "apps/fourfold/ranks.hpp"

namespace fourfold::app {

struct Supervised {
  RankOptions ranks;
  int restarts = 0;        ///< how often the ranks are started again at the most
  std::string folder;      ///< of the run
  std::int64_t steps = 0;  ///< after which the run ends
  std::string config;      ///< the configuration, as it stands in the command line
  /// Whether so many ranks can go on with the run on some grid. May throw where that cannot be
  /// told.
  std::function<bool(int ranks)> has_grid;
};

/// Runs the command as ranks that go on with the run in the folder, or begin it there, until it
/// ends with another status than 1, until it has failed too often, or until it was asked to stop.
/// Where ranks fail twice without a new step, fewer are started, the next smaller number that has a
/// grid: the plan chooses it, and the batch stays. If that number cannot be found now, since data
/// cannot be read, as many are started again. Ranks that end at the same step twice in a row, since
/// its numbers are not finite, are not started again. Ranks that fail when the run has written all
/// of its results are no failure. Returns the last status.
int supervise(const Supervised& job, char** argv);

}  // namespace fourfold::app
