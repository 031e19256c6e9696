// The strategies of the field by name: which axes of the grid each of them uses, and what it fixes.
// docs/strategies.md has a page for each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/config/check.hpp"

namespace fourfold::config {

/// What multiplies the matrices of a layer.
enum class Algorithm {
  kGrid,   ///< the 4-D algorithm, on any grid
  kSumma,  ///< panels that are broadcast along rows and columns of a square
};

struct Strategy {
  std::string_view name;
  std::string_view what;           ///< for people, in a few words
  grid::Axes axes;                 ///< those that may have more than one rank
  grid::Axes own = axes;           ///< those that its ranks lie along when no sizes are given
  grid::Axes equal = {};           ///< these have the same size
  std::optional<int> zero = {};    ///< the only stage of ZeRO along data that it has
  bool sequence_parallel = false;  ///< whether it has that switch
  bool replicates = false;         ///< whether activations are replicated, whatever is set
  Algorithm algorithm = Algorithm::kGrid;
};

/// All of them, from the simplest on.
const std::vector<Strategy>& strategies();
/// Throws InvariantError when there is none of that name.
const Strategy& strategy_of(std::string_view name);

/// Whether the sizes are such as the strategy has.
bool has_sizes(const Strategy& strategy, const grid::Sizes& sizes);
/// Throws ConfigError unless they are: says what to change.
void check_sizes(const Strategy& strategy, const grid::Sizes& sizes);

/// The grids of so many ranks that a strategy has by itself, best first where that is a matter of
/// taste. Throws ConfigError that says why there is none, and which numbers of ranks there are.
std::vector<grid::Sizes> grids_of(const Strategy& strategy, int ranks);

/// Gives the draft what its strategy fixes. Throws ConfigError when something else was asked for.
void resolve_strategy(Draft& draft);

}  // namespace fourfold::config
