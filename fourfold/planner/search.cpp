// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/search.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>

#include "fourfold/base/check.hpp"
#include "fourfold/planner/bound.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::planner {

using grid::Axes;
using grid::Axis;
using grid::Placement;

std::vector<Placement> placements_of(const grid::Sizes& sizes, const Placement& first,
                                     int gpus_per_host) {
  const grid::Grid start(sizes, first);
  std::vector<Axis> used;
  for (const Axis axis : first) {
    if (start.size(axis) > 1) used.push_back(axis);
  }
  std::sort(used.begin(), used.end());
  // Groups over one axis and over the pairs that layers use: the rest follows from these.
  const auto shapes_of = [&](const grid::Grid& grid) {
    std::vector<cluster::GroupShape> shapes;
    for (const Axes& axes :
         {Axes(Axis::kX), Axes(Axis::kY), Axes(Axis::kZ), Axes(Axis::kData), Axes(Axis::kPipe),
          Axes{Axis::kY, Axis::kX}, Axes{Axis::kX, Axis::kZ}, Axes{Axis::kY, Axis::kZ}}) {
      shapes.push_back(cluster::shape_of(grid, axes, gpus_per_host));
    }
    return shapes;
  };
  std::vector<Placement> found = {first};
  std::set<std::vector<cluster::GroupShape>> seen = {shapes_of(start)};
  do {
    Placement placement = first;
    std::size_t next = 0;
    for (Axis& axis : placement) {
      if (start.size(axis) > 1) axis = used[next++];
    }
    if (seen.insert(shapes_of(grid::Grid(sizes, placement))).second) found.push_back(placement);
  } while (std::next_permutation(used.begin(), used.end()));
  return found;
}

namespace {

/// A candidate and the bounds of its placements.
struct Bounded {
  Candidate candidate;
  double least = 0;  ///< of all placements
  std::vector<std::pair<double, Placement>> placements;
};

/// The order of results: time, then everything else, so that equal times have a fixed order.
bool faster(const Predicted& a, const Predicted& b) {
  const auto key = [](const Predicted& p) {
    const Candidate& c = p.candidate;
    return std::tuple(p.step.value(), p.memory.value(), c.sizes.pipe, c.sizes.x, c.sizes.y,
                      c.sizes.z, c.sizes.data, c.chunks, c.checkpoint, c.zero, -c.micro_batch,
                      c.strategy, static_cast<int>(c.activations), c.placement);
  };
  return key(a) < key(b);
}

bool same_grid(const Predicted& a, const Predicted& b) {
  return a.candidate.strategy == b.candidate.strategy && a.candidate.sizes == b.candidate.sizes;
}

class Search {
 public:
  Search(const config::Config& config, const cluster::Cluster& cluster, const SearchSpec& spec)
      : config_(&config), cluster_(&cluster), spec_(&spec) {}

  SearchResult run() {
    collect();
    std::vector<std::thread> workers;
    for (int i = 1; i < spec_->threads; ++i) workers.emplace_back([this] { work(); });
    work();
    for (std::thread& worker : workers) worker.join();
    if (failure_) std::rethrow_exception(failure_);
    rank();
    return std::move(result_);
  }

 private:
  void collect();
  void work();
  void evaluate(const Bounded& bounded);
  void reject_for_memory(const Candidate& candidate, Bytes needed);
  void rank();
  bool dominated(const Candidate& candidate) const;
  /// No plan that takes longer than this is wanted.
  double limit() const;

  const config::Config* config_;
  const cluster::Cluster* cluster_;
  const SearchSpec* spec_;
  std::vector<Bounded> bounded_;  ///< the smallest bound first
  std::mutex mutex_;
  std::size_t next_ = 0;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::vector<Candidate> fitting_;  ///< that were run dry and have room
  SearchResult result_;
};

void Search::collect() {
  Candidate plain;
  plain.micro_batch = config_->train.batch;
  const Workload load = workload_of(train::recipe_of(apply(*config_, plain)));
  for (const std::string& name : spec_->strategies) {
    const config::Strategy& strategy = config::strategy_of(name);
    Candidates all = candidates_of(*config_, strategy, spec_->ranks, spec_->freedom);
    for (const auto& [reason, count] : all.rejected) result_.rejected[reason] += count;
    for (Candidate& candidate : all.list) {
      ++result_.considered;
      const Bytes least = least_memory(load, candidate);
      if (least > spec_->memory) {
        reject_for_memory(candidate, least);
        continue;
      }
      Bounded one;
      one.candidate = candidate;
      const std::vector<Placement> placements =
          spec_->freedom.placement
              ? placements_of(candidate.sizes, candidate.placement, cluster_->gpus_per_host)
              : std::vector{candidate.placement};
      for (const Placement& placement : placements) {
        candidate.placement = placement;
        one.placements.emplace_back(
            lower_bound(load, candidate, config_->train.batch, *cluster_).value(), placement);
      }
      std::stable_sort(one.placements.begin(), one.placements.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      one.least = one.placements.front().first;
      bounded_.push_back(std::move(one));
    }
  }
  std::stable_sort(bounded_.begin(), bounded_.end(),
                   [](const Bounded& a, const Bounded& b) { return a.least < b.least; });
}

double Search::limit() const {
  std::size_t grids = 0;
  for (std::size_t i = 0; i < result_.plans.size(); ++i) {  // the fastest first
    const bool seen =
        std::any_of(result_.plans.begin(), result_.plans.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Predicted& before) { return same_grid(before, result_.plans[i]); });
    if (!seen && ++grids == spec_->top) return result_.plans[i].step.value();
  }
  return std::numeric_limits<double>::infinity();
}

bool Search::dominated(const Candidate& candidate) const {
  return std::any_of(fitting_.begin(), fitting_.end(),
                     [&](const Candidate& other) { return only_saves_memory(other, candidate); });
}

/// Leaves the best plan of each grid.
void Search::rank() {
  std::vector<Predicted> best;
  for (const Predicted& plan : result_.plans) {
    if (dominated(plan.candidate)) continue;
    if (std::any_of(best.begin(), best.end(),
                    [&](const Predicted& other) { return same_grid(other, plan); })) {
      continue;
    }
    best.push_back(plan);
    if (best.size() == spec_->top) break;
  }
  result_.plans = std::move(best);
}

void Search::work() {
  for (;;) {
    const Bounded* bounded = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (ended_ || next_ == bounded_.size() || bounded_[next_].least > limit()) return;
      bounded = &bounded_[next_++];
      if (dominated(bounded->candidate)) {
        ++result_.dominated;
        continue;
      }
    }
    try {
      evaluate(*bounded);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      failure_ = std::current_exception();
      return;
    }
  }
}

void Search::reject_for_memory(const Candidate& candidate, Bytes needed) {
  ++result_.rejected["a rank would need more memory than it has"];
  if (result_.smallest && result_.smallest_memory <= needed) return;
  result_.smallest = candidate;
  result_.smallest_memory = needed;
}

void Search::evaluate(const Bounded& bounded) {
  double wanted = 0;
  {
    const std::lock_guard lock(mutex_);
    wanted = limit();
  }
  const Evaluation evaluation(*config_, bounded.candidate);
  std::vector<Predicted> priced;
  for (const auto& [bound, placement] : bounded.placements) {
    if (bound > wanted) break;
    priced.push_back(evaluation.price(placement, *cluster_));
    wanted = std::min(wanted, priced.back().step.value());
  }
  const bool fits = evaluation.memory() <= spec_->memory;
  const std::lock_guard lock(mutex_);
  ++result_.evaluated;
  if (fits) fitting_.push_back(bounded.candidate);
  if (!fits) return reject_for_memory(bounded.candidate, evaluation.memory());
  result_.priced += static_cast<std::int64_t>(priced.size());
  if (priced.empty()) return;
  // One plan for each candidate: its best placement.
  const Predicted& fastest = *std::min_element(priced.begin(), priced.end(), faster);
  const auto place = std::upper_bound(result_.plans.begin(), result_.plans.end(), fastest, faster);
  result_.plans.insert(place, fastest);
  if (spec_->progress) {
    spec_->progress(static_cast<double>(next_) / static_cast<double>(bounded_.size()),
                    concat(result_.evaluated, " of ", bounded_.size(), " candidates, best ",
                           result_.plans.front().step));
  }
}

}  // namespace

SearchResult search(const config::Config& config, const cluster::Cluster& cluster,
                    const SearchSpec& spec) {
  return Search(config, cluster, spec).run();
}

}  // namespace fourfold::planner
