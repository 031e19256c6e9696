// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/strategy.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/config/value.hpp"

namespace fourfold::config {

using grid::Axes;
using grid::Axis;
using grid::Sizes;

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> kAll = {
      {.name = "ddp", .what = "data parallelism", .axes = Axis::kData, .zero = 0},
      {.name = "zero1",
       .what = "data parallelism with a split optimizer (ZeRO-1)",
       .axes = Axis::kData,
       .zero = 1},
      {.name = "zero2", .what = "and split gradients (ZeRO-2)", .axes = Axis::kData, .zero = 2},
      {.name = "zero3",
       .what = "and split weights (ZeRO-3, FSDP)",
       .axes = {Axis::kZ, Axis::kData},
       .own = Axis::kZ},
      {.name = "megatron",
       .what = "1-D tensor parallelism (Megatron-LM)",
       .axes = {Axis::kY, Axis::kData},
       .own = Axis::kY,
       .sequence_parallel = true},
      {.name = "summa2d",
       .what = "2-D tensor parallelism (Optimus)",
       .axes = {Axis::kX, Axis::kY, Axis::kData},
       .own = {Axis::kX, Axis::kY},
       .equal = {Axis::kX, Axis::kY},
       .summa = true},
      {.name = "summa2.5d",
       .what = "2.5-D tensor parallelism (Tesseract)",
       .axes = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData},
       .own = {Axis::kX, Axis::kY, Axis::kZ},
       .equal = {Axis::kX, Axis::kY},
       .summa = true},
      {.name = "3d",
       .what = "load-balanced 3-D tensor parallelism (Colossal-AI)",
       .axes = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData},
       .own = {Axis::kX, Axis::kY, Axis::kZ},
       .equal = {Axis::kX, Axis::kY, Axis::kZ}},
      {.name = "4d",
       .what = "any grid of 3-D tensor and data parallelism (AxoNN)",
       .axes = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData, Axis::kPipe},
       .own = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData}},
      {.name = "deepspeed3d",
       .what = "pipeline, 1-D tensor and data parallelism with ZeRO-1 (DeepSpeed-3D)",
       .axes = {Axis::kY, Axis::kData, Axis::kPipe},
       .zero = 1,
       .replicates = true},
  };
  return kAll;
}

const Strategy& strategy_of(std::string_view name) {
  if (name == kAuto) return strategy_of("4d");
  for (const Strategy& strategy : strategies()) {
    if (strategy.name == name) return strategy;
  }
  throw InvariantError(concat("there is no strategy ", name));
}

namespace {

int size_of(const Sizes& sizes, Axis axis) {
  return grid::Grid(sizes).size(axis);
}

/// "x, y and z".
std::string list(const Axes& axes) {
  std::string text;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) text += i + 1 == axes.size() ? " and " : ", ";
    text += grid::to_string(axes[i]);
  }
  return text;
}

bool are_equal(const Axes& axes, const Sizes& sizes) {
  return std::all_of(axes.begin(), axes.end(),
                     [&](Axis axis) { return size_of(sizes, axis) == size_of(sizes, axes[0]); });
}

/// Whether a grid of the strategy shows what is typical of it.
bool is_typical(const Strategy& strategy, const Sizes& sizes) {
  // If z is larger than the side of the square, there are more copies of the weights than rows.
  if (strategy.name == "summa2.5d") return sizes.z <= sizes.x;
  return true;
}

std::vector<Sizes> own_grids(const Strategy& strategy, int ranks) {
  std::vector<Sizes> found;
  for (const Sizes& sizes : grid::factorisations(ranks, strategy.own)) {
    if (are_equal(strategy.equal, sizes) && is_typical(strategy, sizes)) found.push_back(sizes);
  }
  return found;
}

}  // namespace

bool has_sizes(const Strategy& strategy, const Sizes& sizes) {
  const bool along = std::all_of(grid::kAllAxes.begin(), grid::kAllAxes.end(), [&](Axis axis) {
    return size_of(sizes, axis) == 1 || strategy.axes.contains(axis);
  });
  return along && are_equal(strategy.equal, sizes);
}

void check_sizes(const Strategy& strategy, const Sizes& sizes) {
  for (Axis axis : grid::kAllAxes) {
    const int size = size_of(sizes, axis);
    if (size == 1 || strategy.axes.contains(axis)) continue;
    throw ConfigError(concat("the strategy ", strategy.name, " has ", list(strategy.axes),
                             " only: ", axis, " must be 1, not ", size,
                             "; for any grid use parallel.strategy = \"4d\""));
  }
  if (!are_equal(strategy.equal, sizes)) {
    std::vector<std::string> named;
    for (Axis axis : strategy.equal) named.push_back(concat(axis, "=", size_of(sizes, axis)));
    throw ConfigError(concat("the strategy ", strategy.name, " needs the same size of ",
                             list(strategy.equal), ", not ", join(named, ","),
                             "; for any grid use parallel.strategy = \"4d\""));
  }
}

std::vector<Sizes> grids_of(const Strategy& strategy, int ranks) {
  std::vector<Sizes> found = own_grids(strategy, ranks);
  if (found.empty()) {
    int below = ranks - 1;
    while (own_grids(strategy, below).empty()) --below;  // every strategy has a grid of one rank
    int above = ranks + 1;
    while (own_grids(strategy, above).empty()) ++above;
    throw ConfigError(concat("the strategy ", strategy.name, " has no grid of ", ranks,
                             " ranks: ", below, " and ", above,
                             " are the nearest that have one; or name the sizes, with some ranks "
                             "along data"));
  }
  if (strategy.name == "deepspeed3d") {
    // Grids with all three kinds of parallelism are preferred, where there are enough factors.
    std::vector<Sizes> whole;
    std::copy_if(found.begin(), found.end(), std::back_inserter(whole),
                 [](const Sizes& s) { return s.pipe > 1 && s.y > 1 && s.data > 1; });
    if (!whole.empty()) return whole;
  }
  return found;
}

namespace {

std::string place_of(const Draft& draft, const std::string& key) {
  const auto found = draft.places.find(key);
  return found == draft.places.end() ? draft.file : found->second;
}

bool has_fixed_activations(const Strategy& strategy) {
  return strategy.replicates || strategy.summa || strategy.name == "3d";
}

}  // namespace

void resolve_strategy(Draft& draft) {
  ParallelConfig& parallel = draft.config.parallel;
  if (parallel.strategy == kAuto && parallel.given) parallel.strategy = "4d";
  const Strategy& strategy = strategy_of(parallel.strategy);
  const auto given = [&](const char* key) { return draft.places.contains(key); };
  parallel.kept = {.placement = given("parallel.placement"),
                   .activations = given("parallel.activations"),
                   .checkpoint = given("train.checkpoint_activations"),
                   .micro_batch = given("train.micro_batch"),
                   .chunks = given("parallel.chunks"),
                   .zero = given("parallel.zero")};
  const auto refuse = [&](const char* key, const std::string& message) {
    throw ConfigError(concat(place_of(draft, key), ": ", key, " ", message));
  };
  if (strategy.zero) {
    if (given("parallel.zero") && parallel.zero != *strategy.zero) {
      refuse("parallel.zero", concat("= ", parallel.zero, " does not go with the strategy ",
                                     strategy.name, ", which has ", *strategy.zero));
    }
    parallel.zero = *strategy.zero;
  }
  if (given("parallel.sequence_parallel") && !strategy.sequence_parallel) {
    refuse("parallel.sequence_parallel",
           concat("goes with the strategy megatron, not with ", strategy.name,
                  has_fixed_activations(strategy) ? ", whose activations are always the same"
                                                  : "; there it is parallel.activations"));
  }
  std::optional<Activations> fixed;
  if (strategy.sequence_parallel) {
    fixed = parallel.sequence_parallel ? Activations::kSharded : Activations::kReplicated;
  } else if (strategy.replicates) {
    fixed = Activations::kReplicated;
  } else if (has_fixed_activations(strategy)) {
    fixed = Activations::kSharded;
  }
  if (!fixed) return;
  if (given("parallel.activations") && parallel.activations != *fixed) {
    refuse("parallel.activations",
           concat("= ", quote(to_string(parallel.activations)), " does not go with the strategy ",
                  strategy.name, ", which has them ", to_string(*fixed)));
  }
  parallel.activations = *fixed;
}

}  // namespace fourfold::config
