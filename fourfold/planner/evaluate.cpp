// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/evaluate.hpp"

#include <algorithm>
#include <array>

#include "fourfold/base/check.hpp"
#include "fourfold/cluster/group_shape.hpp"
#include "fourfold/plan/compute_time.hpp"
#include "fourfold/plan/operation_time.hpp"
#include "fourfold/planner/bound.hpp"
#include "fourfold/planner/pipeline_memory.hpp"
#include "fourfold/planner/pipeline_time.hpp"
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

/// With so many passes all places of a pipeline are busy at once.
std::int64_t fewest_passes(int places, int chunks) {
  return chunks > 1 ? 2 * places : places + 1;
}

/// Which passes are enough: in a pipeline all places must be busy at once; weights that are
/// gathered ahead from one pass to the next appear in the second pass.
Nodes passes_of(std::int64_t passes, int places, int few, int chunks) {
  if (places == 1) return nodes_of(passes, 2, 3);
  const std::int64_t unit = chunks > 1 ? few : 1;
  const std::int64_t low = fewest_passes(few, chunks);
  if (places == few) return nodes_of(passes, low, low + unit);
  const double delay = static_cast<double>(places - few) / chunks;
  return line_through(static_cast<double>(passes) + delay, low, low + unit);
}

}  // namespace

Evaluation::Evaluation(const config::Config& config, const Candidate& candidate, Bytes limit,
                       SharedNames names)
    : candidate_(candidate), names_(std::move(names)) {
  const train::Recipe recipe = train::recipe_of(apply(config, candidate));
  const int places = candidate.sizes.pipe;
  const std::int64_t passes = passes_ = recipe.batch / recipe.micro_batch;
  const bool alike = recipe.model->alike();
  const int few = places <= kFewPlaces || !alike ? places : 2;
  const Nodes by_passes = passes_of(passes, places, few, candidate.chunks);
  const Blocks stages = stages_of(*recipe.model, candidate, few);
  const std::int64_t smallest = *std::min_element(stages.begin(), stages.end());
  const Nodes by_blocks = alike ? nodes_of(smallest, 1, 2) : Nodes{{smallest}, {1}};
  // The first place holds the most passes: if it needs too much, nothing else matters.
  std::vector<Recorded> first_places;
  const FirstPlace deep =
      places > few ? first_of_deep(config, by_blocks.at, by_blocks.weights) : FirstPlace();
  memory_ = deep.memory;
  if (memory_ > limit) return;
  double first = 0;
  for (std::size_t b = 0; b < by_blocks.at.size(); ++b) {
    first_places.push_back(
        record(config, candidate, {by_blocks.at[b], by_passes.at.front(), few}, 1, {}, names_));
    first += by_blocks.weights[b] * static_cast<double>(first_places[b].memory.value());
  }
  memory_ = std::max(memory_, Bytes(static_cast<std::int64_t>(first)));
  if (memory_ > limit) return;
  for (std::size_t b = 0; b < by_blocks.at.size(); ++b) {
    for (std::size_t i = 0; i < by_passes.at.size(); ++i) {
      const Reduced size{by_blocks.at[b], by_passes.at[i], few};
      const bool known = i == 0;
      points_.push_back({by_blocks.weights[b] * by_passes.weights[i], size,
                         record(config, candidate, size, 0,
                                known ? std::move(first_places[b]) : Recorded(), names_)});
    }
  }
  const double more_passes =
      static_cast<double>(std::max<std::int64_t>(0, passes - by_passes.at.back())) /
      static_cast<double>(by_passes.at.back() - by_passes.at.front() + (by_passes.at.size() == 1));
  sum_memory(by_blocks.weights, by_passes.at.size(), more_passes, recipe.overlap.window);
  if (memory_ == deep.memory) by_class_ = deep.by_class;
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
  memory_ = std::max(memory_, Bytes(static_cast<std::int64_t>(memory)));
}

/// The first place of a pipeline has more passes under way than that of one of four places, which
/// is recorded. What a pass holds is proportional to the blocks of the place, and follows from two
/// pipelines that differ by one place. Both have more than two: in shorter ones other things, such
/// as the gradient of a shared table, which arrives in the last pass, or sums of gradients under
/// way, may take more memory than passes.
Evaluation::FirstPlace Evaluation::first_of_deep(const config::Config& config,
                                                 const std::vector<std::int64_t>& smallest,
                                                 const std::vector<double>& weights) const {
  constexpr int kPlaces = 4;
  const int chunks = candidate_.chunks;
  const model::ModelPtr model = train::recipe_of(apply(config, candidate_)).model;
  const auto held_by = [&](const Blocks& blocks, int places, std::int64_t passes, double pass,
                           double sums) {
    std::vector<ChunkMemory> all;
    for (std::size_t i = 0; i < blocks.size();
         i += blocks.size() / static_cast<std::size_t>(chunks)) {
      const auto count = static_cast<double>(blocks[i]);
      all.push_back({count * pass, count * sums});
    }
    return most_held(places, passes, all);
  };
  const auto recorded = [&](int places, std::int64_t blocks) {
    return record(config, candidate_, {blocks, fewest_passes(places, chunks), places}, 1, {},
                  names_);
  };
  FirstPlace result;
  double memory = 0;
  double longer = 0;  // of four places, with the fewest blocks
  std::array<double, tensor::kMemoryClasses> by_class{};
  for (std::size_t b = 0; b < smallest.size(); ++b) {
    const Recorded one = recorded(kPlaces, smallest[b]);
    if (b == 0) longer = static_cast<double>(one.memory.value());
    memory += weights[b] * static_cast<double>(one.memory.value());
    for (std::size_t i = 0; i < by_class.size(); ++i) {
      by_class[i] += weights[b] * static_cast<double>(one.by_class.by_class[i].value());
    }
  }
  const Blocks stages = stages_of(*model, candidate_, kPlaces);
  const Blocks few = shortened(stages, smallest[0]);
  const auto open = [&](int places) {
    return held_by(few, places, fewest_passes(places, chunks), 1, 0);
  };
  const auto shorter = static_cast<double>(recorded(kPlaces - 1, smallest[0]).memory.value());
  const double pass = std::max(0.0, longer - shorter) / (open(kPlaces) - open(kPlaces - 1));
  const double sums = holds_sums(candidate_, passes_) ? bytes_of_sums(*model) : 0;
  const double held = held_by(stages, candidate_.sizes.pipe, passes_, pass, sums) -
                      held_by(stages, kPlaces, fewest_passes(kPlaces, chunks), pass, sums);
  by_class[static_cast<std::size_t>(tensor::MemoryClass::kActivations)] += held;
  result.memory = Bytes(static_cast<std::int64_t>(memory + held));
  for (std::size_t i = 0; i < by_class.size(); ++i) {
    result.by_class.by_class[i] = Bytes(static_cast<std::int64_t>(std::max(0.0, by_class[i])));
  }
  return result;
}

/// Of the gradients of a block's weights, gathered along z.
double Evaluation::bytes_of_sums(const model::Model& model) const {
  const std::int64_t elements =
      model.with_blocks(2)->parameter_count() - model.with_blocks(1)->parameter_count();
  const auto size = static_cast<double>(c10::elementSize(model.execution().precision.master));
  return static_cast<double>(elements) * size / (candidate_.sizes.x * candidate_.sizes.y);
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

namespace {

/// The time in which a place computes, and waits for ranks that are at the same place.
double own_time(const plan::PlaceTime& place) {
  double time = place.compute.value();
  for (const auto& [axes, exposed] : place.exposed_by_axes) {
    const bool others = axes == "all" || axes.find("data") != std::string::npos ||
                        axes.find("pipe") != std::string::npos;
    if (!others) time += exposed.value();
  }
  return time;
}

/// The share of the compute that is done in forward passes.
double forward_share(const schedule::Schedule& schedule, const cluster::Cluster& cluster) {
  double forward = 0;
  double backward = 0;
  for (const schedule::Step& step : schedule.steps()) {
    const auto* compute = std::get_if<schedule::Compute>(&step);
    if (compute == nullptr || compute->phase == schedule::Phase::kUpdate) continue;
    const double seconds = plan::seconds_of(*compute, cluster).value();
    (compute->phase == schedule::Phase::kForward ? forward : backward) += seconds;
  }
  return forward / (forward + backward);
}

/// The time that each place sends hidden states to the next one. Where not all places are recorded,
/// they are like the first.
std::vector<double> times_of_sends(const std::vector<schedule::Schedule>& recorded,
                                   const grid::Grid& grid, const cluster::Cluster& cluster) {
  std::vector<double> times;
  const int places = grid.size(Axis::kPipe);
  const bool all = static_cast<int>(recorded.size()) == places;
  for (int place = 0; place < places; ++place) {
    const int next = (place + 1) % places;
    const cluster::GroupShape shape =
        cluster::pair_shape(grid, Axis::kPipe, place, next, cluster.gpus_per_host);
    // All places but the last are alike in a pipeline whose blocks are.
    const bool last = place + 1 == places;
    const schedule::Schedule& like = recorded[all && !last ? static_cast<std::size_t>(place) : 0];
    const int peer = all && !last ? next : 1;
    std::map<int, double> by_lane;  // the shared table is sent in another one, once
    for (const schedule::Step& step : like.steps()) {
      const auto* issue = std::get_if<schedule::Issue>(&step);
      if (issue == nullptr || issue->collective.op != schedule::Op::kSend) continue;
      if (issue->axes != Axis::kPipe || issue->collective.root != peer) continue;
      by_lane[issue->lane] += plan::time_of(issue->collective, shape, cluster).total().value();
    }
    double longest = 0;
    for (const auto& [lane, seconds] : by_lane) longest = std::max(longest, seconds);
    times.push_back(longest);
  }
  return times;
}

}  // namespace

/// What is not linear in the passes and places of a pipeline: sends that nothing hides, and places
/// that are farther apart than those that were replayed.
double Evaluation::correction(const std::vector<plan::Replayed>& replayed,
                              const grid::Placement& placement,
                              const cluster::Cluster& cluster) const {
  const Point& first = points_.front();
  const bool by_passes = points_.size() > 1 && points_[1].size.blocks == first.size.blocks;
  if (candidate_.sizes.pipe == 1 || !by_passes) return 0;
  const auto places = static_cast<std::size_t>(first.size.places);
  const auto more = static_cast<double>(points_[1].size.passes - first.size.passes);
  std::vector<double> passes(places, 0.0);  // of a pass at each place, with all its blocks
  for (std::size_t i = 0; i < points_.size(); i += 2) {
    const double weight = (points_[i].weight + points_[i + 1].weight) / more;
    for (std::size_t place = 0; place < places; ++place) {
      passes[place] +=
          weight * (own_time(replayed[i + 1].places[place]) - own_time(replayed[i].places[place]));
    }
  }
  const double forward = forward_share(first.recorded.places.front(), cluster);
  const auto time = [&](int count, std::int64_t number) {
    grid::Sizes sizes = candidate_.sizes;
    sizes.pipe = count;
    const std::vector<double> sends =
        times_of_sends(first.recorded.places, grid::Grid(sizes, placement), cluster);
    std::vector<UnitTime> units;
    for (std::size_t place = 0; place < sends.size(); ++place) {
      // All places but the first and the last are alike.
      const std::size_t like = place + 1 == sends.size() ? places - 1 : std::min(place, places - 2);
      const double pass = passes[like] / candidate_.chunks;
      const auto sent = static_cast<double>(first.size.passes * candidate_.chunks);
      units.push_back({pass * forward, pass * (1 - forward), sends[place] / sent});
    }
    return pipeline_time(units, candidate_.chunks, number);
  };
  double linear = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const double share = points_[i].weight / (points_[0].weight + points_[1].weight);
    linear += share * time(points_[i].size.places, points_[i].size.passes);
  }
  return time(candidate_.sizes.pipe, passes_) - linear;
}

Predicted Evaluation::price(const grid::Placement& placement,
                            const cluster::Cluster& cluster) const {
  FOURFOLD_CHECK(is_complete(), "the price of a candidate that needs too much memory");
  Predicted result;
  result.candidate = candidate_;
  result.memory = memory_;
  result.by_class = by_class_;
  result.candidate.placement = placement;
  double step = 0;
  double compute = 0;
  std::map<std::string, double> exposed;
  std::vector<plan::Replayed> replayed;
  for (const Point& point : points_) {
    grid::Sizes sizes = candidate_.sizes;
    sizes.pipe = point.size.places;
    replayed.push_back(plan::replay(point.recorded.places, grid::Grid(sizes, placement), cluster));
    const plan::PlaceTime& busiest = replayed.back().busiest();
    step += point.weight * replayed.back().step.value();
    compute += point.weight * busiest.compute.value();
    for (const auto& [axes, time] : busiest.exposed_by_axes) {
      exposed[axes] += point.weight * time.value();
    }
  }
  const double more = correction(replayed, placement, cluster);
  step += more;
  exposed[grid::to_string(grid::Axes(Axis::kPipe))] += more;
  result.step = Seconds(step);
  result.compute = Seconds(std::min(step, compute));
  result.exposed = Seconds(std::max(0.0, step - compute));
  for (const auto& [axes, time] : exposed) {
    if (time > 0) result.exposed_by_axes[axes] = Seconds(time);
  }
  return result;
}

}  // namespace fourfold::planner
