// One way to run a configuration, and all the ways that are worth a look.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fourfold/config/config.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/grid/grid.hpp"

namespace fourfold::planner {

struct Candidate {
  std::string strategy = "4d";
  grid::Sizes sizes;
  grid::Placement placement = grid::kDefaultPlacement;
  config::Activations activations = config::Activations::kSharded;
  bool checkpoint = false;
  std::int64_t micro_batch = 1;
  int chunks = 1;
  int zero = 1;

  int ranks() const { return grid::Grid(sizes).ranks(); }
  bool operator==(const Candidate&) const = default;
};

/// The configuration with the values of the candidate.
config::Config apply(config::Config config, const Candidate& candidate);

/// "4d x=2,y=4,data=8, micro-batches of 16, checkpointing": what a user must know to run it.
std::string to_string(const Candidate& candidate);
/// The values besides the grid that differ from the defaults: "checkpointing, zero 2"; may be
/// empty.
std::string settings_of(const Candidate& candidate, std::int64_t batch);

/// What the search may choose. What it may not choose stays as in the configuration.
struct Freedom {
  bool grid = true;  ///< the sizes of the axes
  bool pipe = true;  ///< the size of the axis pipe
  bool placement = true;
  bool activations = true;
  bool checkpoint = true;
  bool micro_batch = true;
  bool chunks = true;
  bool zero = true;
};

/// The candidates of a strategy, and how many others were left out for which reason.
struct Candidates {
  std::vector<Candidate> list;
  std::map<std::string, std::int64_t> rejected;
};

/// Every candidate of the strategy with `ranks` ranks that the model fits, all with the placement
/// of the configuration: the search tries the others. The candidates are in a fixed order. A grid
/// that is kept has candidates only if the strategy allows it and it has so many ranks.
Candidates candidates_of(const config::Config& config, const config::Strategy& strategy, int ranks,
                         const Freedom& freedom = {});

}  // namespace fourfold::planner
