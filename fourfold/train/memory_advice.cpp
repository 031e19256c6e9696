// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/memory_advice.hpp"

#include <algorithm>
#include <functional>

#include "fourfold/base/check.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/train/rank_memory.hpp"

namespace fourfold::train {

using config::Config;

namespace {

/// About the memory that a rank needs.
double memory_needed(const Config& config, const Choice& choice) {
  const Recipe recipe = recipe_of(config, choice);
  if (choice.sizes.pipe == 1) return estimate(recipe, choice.sizes).memory;
  return static_cast<double>(peak_memory(recipe, choice.sizes).value());
}

/// Whether a rank's tensors fit. The estimate excludes most choices; a dry run of all layers
/// decides about the others.
bool has_room(const Config& config, const Choice& choice, double memory) {
  if (memory_needed(config, choice) > memory) return false;
  const Bytes peak = peak_memory(recipe_of(config, choice), choice.sizes);
  return static_cast<double>(peak.value()) <= memory;
}

/// Whether some grid of `ranks` ranks has enough memory. Only grids with the fewest copies of the
/// model are considered.
bool have_room(const Config& config, int ranks, double memory) {
  std::vector<Choice> choices;
  try {
    choices = fitting_choices(config, ranks);
  } catch (const ConfigError&) {
    return false;
  }
  const auto copies = [](const Choice& choice) { return choice.sizes.data; };
  const int fewest = copies(
      *std::min_element(choices.begin(), choices.end(),
                        [&](const Choice& a, const Choice& b) { return copies(a) < copies(b); }));
  return std::any_of(choices.begin(), choices.end(), [&](const Choice& choice) {
    return copies(choice) == fewest && has_room(config, choice, memory);
  });
}

/// The smallest of some multiples of `ranks` that would be enough; 0 if none is.
int enough_ranks(const Config& config, int ranks, double memory) {
  // For a pipeline, every place would need a dry run of its own.
  if (config::strategy_of(config.parallel.strategy).own.contains(grid::Axis::kPipe)) return 0;
  constexpr int kMostTimes = 64;
  constexpr int kMostRanks = 1 << 20;
  for (int times = 2; times <= kMostTimes && ranks <= kMostRanks / times; times *= 2) {
    if (have_room(config, ranks * times, memory)) return ranks * times;
  }
  return 0;
}

/// Tries half the micro-batch, a quarter of it and so on. Returns the first that has enough memory,
/// else the smallest that the grid can split, else the current one.
std::int64_t smaller_micro_batch(const Config& config, const Choice& choice, double memory) {
  std::int64_t smallest = choice.micro_batch;
  while (smallest % 2 == 0 && misfit(config, {choice.sizes, smallest / 2}).empty()) {
    smallest /= 2;
    if (has_room(config, {choice.sizes, smallest}, memory)) break;
  }
  return smallest;
}

}  // namespace

std::string memory_advice(const Config& config, int ranks, const Choice& choice, Bytes memory) {
  std::vector<std::string> measures;
  const auto measure = [&](const std::string& what, const Config& changed,
                           const Choice& changed_choice) {
    const double needed = memory_needed(changed, changed_choice);
    measures.push_back(concat(what, " about ", Bytes(static_cast<std::int64_t>(needed))));
  };
  if (!config.train.checkpoint_activations) {
    Config changed = config;
    changed.train.checkpoint_activations = true;
    measure("train.checkpoint_activations = true", changed, choice);
  }
  const auto room = static_cast<double>(memory.value());
  const std::int64_t smaller = smaller_micro_batch(config, choice, room);
  if (smaller < choice.micro_batch) {
    measure(concat("train.micro_batch = ", smaller), config, {choice.sizes, smaller});
  }
  const bool zero_is_free = !config::strategy_of(config.parallel.strategy).zero;
  if (zero_is_free && config.parallel.zero < 2 && choice.sizes.data > 1 && choice.sizes.pipe == 1) {
    Config changed = config;
    changed.parallel.zero = 2;
    measure("parallel.zero = 2", changed, choice);
  }
  if (config.train.precision != config::Precision::kBf16) {
    Config changed = config;
    changed.train.precision = config::Precision::kBf16;
    measure("train.precision = \"bf16\"", changed, choice);
  }
  std::string text;
  if (const int enough = enough_ranks(config, ranks, room)) {
    text += concat("; ", enough, " ranks would do");
  }
  if (!measures.empty()) text += concat("; on that grid it needs with ", join(measures, ", with "));
  return text;
}

}  // namespace fourfold::train
