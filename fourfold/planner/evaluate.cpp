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

/// Values at `low` and `high` give the value at `number`, unless it is not beyond `high` itself.
Nodes nodes_of(std::int64_t number, std::int64_t low, std::int64_t high) {
  if (number <= high) return {{number}, {1}};
  const double beyond = static_cast<double>(number - low) / static_cast<double>(high - low);
  return {{low, high}, {1 - beyond, beyond}};
}

/// Which passes are enough: in a pipeline all places must be busy at once; weights that are
/// gathered ahead from one pass to the next appear in the second pass.
Nodes passes_of(std::int64_t passes, int places, int chunks) {
  if (places == 1) return nodes_of(passes, 2, 3);
  const std::int64_t unit = chunks > 1 ? places : 1;
  const std::int64_t low = chunks > 1 ? 2 * places : places + 1;
  return nodes_of(passes, low, low + unit);
}

constexpr int kFewPlaces = 4;

}  // namespace

Recorded record(const config::Config& config, const Candidate& candidate, const Reduced& size) {
  Candidate small = candidate;
  small.sizes.pipe = size.places;
  train::Recipe recipe = train::recipe_of(apply(config, small));
  const std::int64_t all = recipe.model->blocks();
  const std::int64_t blocks = size.blocks * size.places * candidate.chunks;
  // The same share of the weights of a rank can be kept.
  const double stages = static_cast<double>(candidate.sizes.pipe) * candidate.chunks;
  const double share = static_cast<double>(size.blocks) * stages / static_cast<double>(all);
  recipe.overlap.keep =
      static_cast<std::int64_t>(static_cast<double>(recipe.overlap.keep) * std::min(1.0, share));
  recipe.model = recipe.model->with_blocks(std::min(all, blocks));
  recipe.batch = size.passes * recipe.micro_batch;
  const grid::Grid grid(small.sizes, small.placement);
  Recorded recorded;
  for (int place = 0; place < size.places; ++place) {
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
  const Nodes by_places =
      places <= kFewPlaces ? Nodes{{places}, {1}} : nodes_of(places, kFewPlaces / 2, kFewPlaces);
  const Nodes by_blocks = nodes_of(in_stage, 1, 2);
  double memory = 0;
  for (std::size_t p = 0; p < by_places.at.size(); ++p) {
    const auto here = static_cast<int>(by_places.at[p]);
    const Nodes by_passes = passes_of(passes, here, candidate.chunks);
    for (std::size_t b = 0; b < by_blocks.at.size(); ++b) {
      for (std::size_t i = 0; i < by_passes.at.size(); ++i) {
        const Reduced size{by_blocks.at[b], by_passes.at[i], here};
        Point point{by_places.weights[p] * by_blocks.weights[b] * by_passes.weights[i], size,
                    record(config, candidate, size)};
        memory += point.weight * static_cast<double>(point.recorded.memory.value());
        points_.push_back(std::move(point));
      }
    }
  }
  memory_ = Bytes(static_cast<std::int64_t>(memory));
  by_class_ = points_.back().recorded.by_class;
  if (points_.size() == 1) return;
  for (std::size_t i = 0; i < by_class_.by_class.size(); ++i) {
    double sum = 0;
    for (const Point& point : points_) {
      sum += point.weight * static_cast<double>(point.recorded.by_class.by_class[i].value());
    }
    by_class_.by_class[i] = Bytes(static_cast<std::int64_t>(std::max(0.0, sum)));
  }
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
  Predicted result{.candidate = candidate_, .memory = memory_, .by_class = by_class_};
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
