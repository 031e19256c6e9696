// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/evaluate.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::planner {

using grid::Axis;

namespace {

/// A linear function of a number is known from its values at two places, or at one where the
/// number itself is small.
struct Nodes {
  std::vector<std::int64_t> at;
  std::vector<double> weights;
};

/// Values at `low` and `high` give the value at `number`.
Nodes line_through(double number, std::int64_t low, std::int64_t high) {
  const double beyond = (number - static_cast<double>(low)) / static_cast<double>(high - low);
  return {{low, high}, {1 - beyond, beyond}};
}

/// The same, unless the number is not beyond `high` itself.
Nodes nodes_of(std::int64_t number, std::int64_t low, std::int64_t high) {
  if (number <= high) return {{number}, {1}};
  return line_through(static_cast<double>(number), low, high);
}

/// Pipelines of more places are predicted from one of two places: a place more delays a step as
/// much as a pass more, divided by the chunks of a rank.
constexpr int kFewPlaces = 4;

/// Which passes are enough: in a pipeline all places must be busy at once; weights that are
/// gathered ahead from one pass to the next appear in the second pass.
Nodes passes_of(std::int64_t passes, int places, int chunks) {
  if (places == 1) return nodes_of(passes, 2, 3);
  const int few = places <= kFewPlaces ? places : 2;
  const std::int64_t unit = chunks > 1 ? few : 1;
  const std::int64_t low = chunks > 1 ? 2 * few : few + 1;
  if (places <= kFewPlaces) return nodes_of(passes, low, low + unit);
  const double delay = static_cast<double>(places - few) / chunks;
  return line_through(static_cast<double>(passes) + delay, low, low + unit);
}

}  // namespace

Recorded record(const config::Config& config, const Candidate& candidate, const Reduced& size,
                int first_places) {
  Candidate small = candidate;
  small.sizes.pipe = size.places;
  train::Recipe recipe = train::recipe_of(apply(config, small));
  const std::int64_t all = recipe.model->blocks();
  const std::int64_t blocks = size.blocks * size.places * candidate.chunks;
  // The same share of the weights of a rank can be kept, and its weights are as many segments
  // along data: what cannot overlap with compute is the last segment of the gradients and the first
  // one of the new weights, so both must be as large a part of the step as in the whole one.
  const double stages = static_cast<double>(candidate.sizes.pipe) * candidate.chunks;
  const double share = static_cast<double>(size.blocks) * stages / static_cast<double>(all);
  const auto shared = [&](std::int64_t bytes) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(bytes) * std::min(1.0, share)));
  };
  recipe.overlap.keep = shared(recipe.overlap.keep);
  recipe.overlap.segment = shared(recipe.overlap.segment);
  recipe.model = recipe.model->with_blocks(std::min(all, blocks));
  recipe.batch = size.passes * recipe.micro_batch;
  const grid::Grid grid(small.sizes, small.placement);
  Recorded recorded;
  const int recorded_places = first_places > 0 ? first_places : size.places;
  for (int place = 0; place < recorded_places; ++place) {
    grid::Coord coord;
    coord[Axis::kPipe] = place;
    train::StepRecord step = train::dry_run(grid, grid.rank_of(coord), recipe);
    recorded.places.push_back(std::move(step.schedule));
    if (step.peak() <= recorded.memory && place > 0) continue;
    recorded.memory = step.peak();
    recorded.by_class = step.at_peak;
  }
  return recorded;
}

Evaluation::Evaluation(const config::Config& config, const Candidate& candidate)
    : candidate_(candidate) {
  const train::Recipe recipe = train::recipe_of(apply(config, candidate));
  const int places = candidate.sizes.pipe;
  const std::int64_t stages = std::int64_t{places} * candidate.chunks;
  const std::int64_t in_stage = (recipe.model->blocks() + stages - 1) / stages;
  const std::int64_t passes = recipe.batch / recipe.micro_batch;
  const int few = places <= kFewPlaces ? places : 2;
  const Nodes by_passes = passes_of(passes, places, candidate.chunks);
  const Nodes by_blocks = nodes_of(in_stage, 1, 2);
  for (std::size_t b = 0; b < by_blocks.at.size(); ++b) {
    for (std::size_t i = 0; i < by_passes.at.size(); ++i) {
      const Reduced size{by_blocks.at[b], by_passes.at[i], few};
      points_.push_back(
          {by_blocks.weights[b] * by_passes.weights[i], size, record(config, candidate, size)});
    }
  }
  const double more_passes =
      static_cast<double>(std::max<std::int64_t>(0, passes - by_passes.at.back())) /
      static_cast<double>(by_passes.at.back() - by_passes.at.front() + (by_passes.at.size() == 1));
  sum_memory(by_blocks.weights, by_passes.at.size(), more_passes, recipe.overlap.window);
  if (places > few) add_memory_of_passes(config, places - few);
}

/// Memory is linear in the blocks. Later passes take the memory of earlier ones, except that sums
/// of gradients under way may accumulate until they fill the window.
void Evaluation::sum_memory(const std::vector<double>& weights, std::size_t passes,
                            double more_passes, std::int64_t window) {
  const auto total = [&](std::size_t pass) {
    double sum = 0;
    for (std::size_t b = 0; b < weights.size(); ++b) {
      const Recorded& recorded = points_[b * passes + pass].recorded;
      sum += weights[b] * static_cast<double>(recorded.memory.value());
    }
    return sum;
  };
  for (std::size_t i = 0; i < by_class_.by_class.size(); ++i) {
    double sum = 0;
    for (std::size_t b = 0; b < weights.size(); ++b) {
      const Recorded& recorded = points_[(b + 1) * passes - 1].recorded;
      sum += weights[b] * static_cast<double>(recorded.by_class.by_class[i].value());
    }
    by_class_.by_class[i] = Bytes(static_cast<std::int64_t>(std::max(0.0, sum)));
  }
  double memory = total(passes - 1);
  if (passes == 2) {
    const double grows = std::max(0.0, memory - total(0)) * more_passes;
    const double held = std::min(grows, static_cast<double>(window));
    memory += held;
    constexpr auto kUnderWay = static_cast<std::size_t>(tensor::MemoryClass::kCommunication);
    by_class_.by_class[kUnderWay] += Bytes(static_cast<std::int64_t>(held));
  }
  memory_ = Bytes(static_cast<std::int64_t>(memory));
}

/// The first place of a pipeline has as many passes under way as there are places. What a pass
/// holds follows from one place more; it is proportional to the blocks of a place.
void Evaluation::add_memory_of_passes(const config::Config& config, int more) {
  const Reduced& size = points_.front().size;
  const auto first_place = [&](int places) {
    const std::int64_t passes = candidate_.chunks > 1 ? 2 * places : places + 1;
    return record(config, candidate_, {size.blocks, passes, places}, 1).memory;
  };
  const double pass = static_cast<double>((first_place(3) - first_place(2)).value());
  double blocks = 0;
  for (const Point& point : points_) {
    blocks += point.weight * static_cast<double>(point.size.blocks);
  }
  const double held = std::max(0.0, pass) * more * blocks / static_cast<double>(size.blocks);
  const Bytes added(static_cast<std::int64_t>(held));
  memory_ += added;
  by_class_.by_class[static_cast<std::size_t>(tensor::MemoryClass::kActivations)] += added;
}

Evaluation::Traced Evaluation::trace(const grid::Placement& placement,
                                     const cluster::Cluster& cluster) const {
  const Point& last = points_.back();
  grid::Sizes sizes = candidate_.sizes;
  sizes.pipe = last.size.places;
  plan::Replayed replayed =
      plan::replay(last.recorded.places, grid::Grid(sizes, placement), cluster, {.traces = true});
  return {std::move(replayed.traces), points_.size() == 1, last.size};
}

Predicted Evaluation::price(const grid::Placement& placement,
                            const cluster::Cluster& cluster) const {
  Predicted result;
  result.candidate = candidate_;
  result.memory = memory_;
  result.by_class = by_class_;
  result.candidate.placement = placement;
  double step = 0;
  double compute = 0;
  std::map<std::string, double> exposed;
  for (const Point& point : points_) {
    grid::Sizes sizes = candidate_.sizes;
    sizes.pipe = point.size.places;
    const plan::Replayed replayed =
        plan::replay(point.recorded.places, grid::Grid(sizes, placement), cluster);
    const plan::PlaceTime& busiest = replayed.busiest();
    step += point.weight * replayed.step.value();
    compute += point.weight * busiest.compute.value();
    for (const auto& [axes, time] : busiest.exposed_by_axes) {
      exposed[axes] += point.weight * time.value();
    }
  }
  result.step = Seconds(step);
  result.compute = Seconds(std::min(step, compute));
  result.exposed = Seconds(std::max(0.0, step - compute));
  for (const auto& [axes, time] : exposed) {
    if (time > 0) result.exposed_by_axes[axes] = Seconds(time);
  }
  return result;
}

}  // namespace fourfold::planner
