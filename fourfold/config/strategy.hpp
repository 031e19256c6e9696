// The known strategies of parallel training by name: which axes of the grid each one uses, and
// which settings it fixes. docs/strategies.md has a page for each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/config/check.hpp"

namespace fourfold::config {

struct Strategy {
  std::string_view name;
  std::string_view what;           ///< for people, in a few words
  grid::Axes axes;                 ///< the axes that may have more than one rank
  grid::Axes own = axes;           ///< the axes that are used when no sizes are given
  grid::Axes equal = {};           ///< the axes that must have the same size
  std::optional<int> zero = {};    ///< the only level of ZeRO along data that it allows
  bool sequence_parallel = false;  ///< whether it has this switch
  bool replicates = false;         ///< whether activations are replicated, whatever is set
  bool summa = false;              ///< whether it multiplies by SUMMA, on a square of ranks
};

/// The name that leaves the choice to the planner, or where there is none to `4d`.
inline constexpr std::string_view kAuto = "auto";

/// All strategies, the simplest first.
const std::vector<Strategy>& strategies();
/// `auto` has the axes and rules of `4d`. Throws InvariantError when there is no strategy of that
/// name.
const Strategy& strategy_of(std::string_view name);

/// Whether the strategy allows these sizes.
bool has_sizes(const Strategy& strategy, const grid::Sizes& sizes);
/// Throws ConfigError that says what to change unless the strategy allows these sizes.
void check_sizes(const Strategy& strategy, const grid::Sizes& sizes);

/// The grids of `ranks` ranks that a strategy chooses by itself, with preferred grids first. Throws
/// ConfigError that says why there is none, and which numbers of ranks work.
std::vector<grid::Sizes> grids_of(const Strategy& strategy, int ranks);

/// Sets what the strategy fixes in the draft. `auto` with a grid that was given is `4d`. Throws
/// ConfigError when another value was given.
void resolve_strategy(Draft& draft);

}  // namespace fourfold::config
