// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/search.hpp"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <queue>
#include <thread>
#include <tuple>

#include "fourfold/base/check.hpp"
#include "fourfold/planner/bound.hpp"
#include "fourfold/planner/placements.hpp"

namespace fourfold::planner {

using grid::Placement;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

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

/// The candidates of one strategy with the same sizes: only the best of them is wanted.
struct OneGrid {
  std::vector<Placement> placements;
  std::vector<AxisLinks> links;  ///< of each placement
  std::optional<Predicted> best;

  double step() const { return best ? best->step.value() : kNever; }
};

struct Considered {
  Candidate candidate;
  std::size_t grid = 0;
};

/// What the bound of a candidate is from.
enum class BoundBy {
  kFlops,  ///< needs no dry run
  kPlain,  ///< the profile of blocks that are not computed again, although its blocks are
  kWhole,  ///< the profile of one pass with all samples, although it has several passes
  kProfile,
};

/// A candidate that is still open. The smallest bound is next.
struct Open {
  double bound = 0;
  std::size_t candidate = 0;
  BoundBy by = BoundBy::kFlops;

  bool operator<(const Open& other) const {
    return std::tie(other.bound, other.candidate) < std::tie(bound, candidate);
  }
};

/// The placements of a candidate with their bounds, the smallest first.
using Bounds = std::vector<std::pair<double, Placement>>;

class Search {
 public:
  Search(const config::Config& config, const cluster::Cluster& cluster, const SearchSpec& spec)
      : config_(&config),
        cluster_(&cluster),
        spec_(&spec),
        known_(spec.known ? spec.known : std::make_shared<Predictions>(config, cluster)),
        load_(workload_of(config)) {}

  SearchResult run() {
    for (const std::string& name : spec_->strategies) collect(config::strategy_of(name));
    std::vector<std::thread> workers;
    for (int i = 1; i < spec_->threads; ++i) workers.emplace_back([this] { work(); });
    work();
    for (std::thread& worker : workers) worker.join();
    if (failure_) std::rethrow_exception(failure_);
    rank();
    return std::move(result_);
  }

 private:
  void collect(const config::Strategy& strategy);
  std::size_t add_grid(const Candidate& candidate);
  double first_bound(const Candidate& candidate, const OneGrid& grid) const;

  void work();
  std::optional<Open> next(std::unique_lock<std::mutex>& lock);
  BoundBy next_bound(const Open& open) const;
  Candidate profiled_as(Candidate candidate, BoundBy by) const;
  void refine(Open open);
  void evaluate(const Open& open);
  Bounds bounds_of(const Considered& considered, BoundBy by) const;
  Bytes least_memory_of(const Candidate& candidate, BoundBy by) const {
    return least_memory(known_->profiles().of(profiled_as(candidate, by)), load_, *config_,
                        candidate);
  }
  void found(const Considered& considered, const Predicted& predicted);
  void reject_for_memory(const Candidate& candidate, Bytes needed);
  void show(const Open& open);
  void rank();
  /// No plan of this grid that takes longer is wanted.
  double wanted(std::size_t grid) const { return std::min(limit_, grids_[grid].step()); }

  const config::Config* config_;
  const cluster::Cluster* cluster_;
  const SearchSpec* spec_;
  std::shared_ptr<Predictions> known_;
  Workload load_;
  std::vector<Considered> considered_;

  std::mutex mutex_;  // of everything below
  std::condition_variable changed_;
  std::vector<OneGrid> grids_;
  std::priority_queue<Open> open_;
  int busy_ = 0;           // threads that may add to what is open
  double limit_ = kNever;  // the step of the last grid that is wanted
  std::exception_ptr failure_;
  SearchResult result_;
};

// --- all candidates

std::size_t Search::add_grid(const Candidate& candidate) {
  OneGrid grid;
  grid.placements = spec_->freedom.placement ? placements_of(candidate.sizes, candidate.placement,
                                                             cluster_->gpus_per_host)
                                             : std::vector{candidate.placement};
  for (const Placement& placement : grid.placements) {
    grid.links.push_back(links_of(grid::Grid(candidate.sizes, placement), *cluster_));
  }
  grids_.push_back(std::move(grid));
  return grids_.size() - 1;
}

double Search::first_bound(const Candidate& candidate, const OneGrid& grid) const {
  const std::int64_t batch = config_->train.batch;
  double links = kNever;
  for (const AxisLinks& one : grid.links) {
    links = std::min(links, link_bound(load_, candidate, batch, one).value());
  }
  return std::max(links, compute_bound(load_, candidate, batch, *cluster_).value());
}

void Search::collect(const config::Strategy& strategy) {
  Candidates all = candidates_of(*config_, strategy, spec_->ranks, spec_->freedom);
  for (const auto& [reason, count] : all.rejected) result_.rejected[reason] += count;
  result_.considered += static_cast<std::int64_t>(all.list.size());
  std::optional<grid::Sizes> sizes;
  for (Candidate& candidate : all.list) {
    const Bytes least = least_memory(load_, candidate);
    if (least > spec_->memory) {
      reject_for_memory(candidate, least);
      continue;
    }
    if (sizes != candidate.sizes) add_grid(candidate);  // they come one grid after the other
    sizes = candidate.sizes;
    const std::size_t grid = grids_.size() - 1;
    open_.push({first_bound(candidate, grids_[grid]), considered_.size()});
    considered_.push_back({std::move(candidate), grid});
  }
}

// --- the search

/// The open candidate with the smallest bound, or nothing when no other can matter.
std::optional<Open> Search::next(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (failure_) return std::nullopt;
    if (!open_.empty() && open_.top().bound <= limit_) {
      const Open open = open_.top();
      open_.pop();
      if (open.bound > wanted(considered_[open.candidate].grid)) continue;
      return open;
    }
    if (busy_ == 0) return std::nullopt;
    changed_.wait(lock);
  }
}

void Search::work() {
  std::unique_lock lock(mutex_);
  while (const std::optional<Open> open = next(lock)) {
    ++busy_;
    show(*open);
    lock.unlock();
    std::exception_ptr failure;
    try {
      open->by == BoundBy::kProfile ? evaluate(*open) : refine(*open);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --busy_;
    if (failure) failure_ = failure;
    changed_.notify_all();
  }
}

/// What is profiled for a bound of the candidate.
Candidate Search::profiled_as(Candidate candidate, BoundBy by) const {
  if (by == BoundBy::kPlain) candidate.checkpoint = false;
  if (by == BoundBy::kWhole) candidate.micro_batch = config_->train.batch;
  return candidate;
}

/// The cheapest bound that is longer than the one that is known. A profile of a model whose blocks
/// are not alike is expensive: there candidates that differ in their passes share one first.
BoundBy Search::next_bound(const Open& open) const {
  const Candidate& candidate = considered_[open.candidate].candidate;
  if (open.by != BoundBy::kFlops) return BoundBy::kProfile;
  if (!load_.alike && candidate.micro_batch < config_->train.batch) return BoundBy::kWhole;
  return load_.alike && candidate.checkpoint ? BoundBy::kPlain : BoundBy::kProfile;
}

Bounds Search::bounds_of(const Considered& considered, BoundBy by) const {
  Candidate candidate = considered.candidate;
  Profile& profile = known_->profiles().of(profiled_as(candidate, by));
  const OneGrid& grid = grids_[considered.grid];
  Bounds bounds;
  for (std::size_t i = 0; i < grid.placements.size(); ++i) {
    candidate.placement = grid.placements[i];
    const double links = link_bound(load_, candidate, config_->train.batch, grid.links[i]).value();
    const double profiled = lower_bound(profile, load_, *config_, candidate, *cluster_).value();
    bounds.emplace_back(std::max(links, profiled), candidate.placement);
  }
  std::stable_sort(bounds.begin(), bounds.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return bounds;
}

/// Finds a longer bound of the candidate, and leaves it open.
void Search::refine(Open open) {
  const Considered& considered = considered_[open.candidate];
  open.by = next_bound(open);
  const bool plain = open.by == BoundBy::kPlain;  // then it holds more than the candidate
  const Bytes least = plain ? Bytes() : least_memory_of(considered.candidate, open.by);
  const bool fits = least <= spec_->memory;
  if (fits) open.bound = std::max(open.bound, bounds_of(considered, open.by).front().first);
  const std::lock_guard lock(mutex_);
  result_.refined += open.by == BoundBy::kProfile ? 1 : 0;
  if (!fits) return reject_for_memory(considered.candidate, least);
  open_.push(open);
}

void Search::evaluate(const Open& open) {
  const Considered& considered = considered_[open.candidate];
  Predictions::Of prediction(*known_, considered.candidate);
  const Bytes memory = prediction.memory(spec_->memory);
  std::int64_t priced = 0;
  std::int64_t below = memory < least_memory_of(considered.candidate, BoundBy::kProfile) ? 1 : 0;
  std::optional<Predicted> best;
  if (memory <= spec_->memory) {
    for (const auto& [bound, placement] : bounds_of(considered, BoundBy::kProfile)) {
      {
        const std::lock_guard lock(mutex_);
        const double least = best ? best->step.value() : kNever;
        if (bound > std::min(wanted(considered.grid), least)) break;
      }
      const Predicted one = prediction.price(placement);
      ++priced;
      below += one.step.value() < bound ? 1 : 0;
      if (!best || faster(one, *best)) best = one;
    }
  }
  const std::lock_guard lock(mutex_);
  result_.evaluated += prediction.ran_dry() ? 1 : 0;
  result_.priced += priced;
  result_.below_bound += below;
  if (memory > spec_->memory) reject_for_memory(considered.candidate, memory);
  if (best) found(considered, *best);
}

void Search::found(const Considered& considered, const Predicted& predicted) {
  OneGrid& grid = grids_[considered.grid];
  if (grid.best && !faster(predicted, *grid.best)) return;
  grid.best = predicted;
  std::vector<double> steps;
  for (const OneGrid& one : grids_) {
    if (one.best) steps.push_back(one.step());
  }
  if (steps.size() < spec_->top) return;
  const auto last = steps.begin() + static_cast<std::ptrdiff_t>(spec_->top) - 1;
  std::nth_element(steps.begin(), last, steps.end());
  limit_ = *last;
}

void Search::reject_for_memory(const Candidate& candidate, Bytes needed) {
  ++result_.rejected["a rank would need more memory than it has"];
  if (result_.smallest && result_.smallest_memory <= needed) return;
  result_.smallest = candidate;
  result_.smallest_memory = needed;
}

/// Bounds grow until they reach the limit.
void Search::show(const Open& open) {
  if (!spec_->progress || limit_ == kNever) return;
  double best = kNever;
  for (const OneGrid& grid : grids_) best = std::min(best, grid.step());
  spec_->progress(
      std::min(1.0, open.bound / limit_),
      concat(result_.evaluated, " candidates run dry, best ", Seconds(best), "; all below ",
             Seconds(open.bound), " of ", Seconds(limit_), " are done"));
}

/// The best plan of each grid, the fastest first.
void Search::rank() {
  for (const OneGrid& grid : grids_) {
    if (grid.best) result_.plans.push_back(*grid.best);
  }
  std::sort(result_.plans.begin(), result_.plans.end(), faster);
  if (result_.plans.size() > spec_->top) result_.plans.resize(spec_->top);
}

}  // namespace

SearchResult search(const config::Config& config, const cluster::Cluster& cluster,
                    const SearchSpec& spec) {
  return Search(config, cluster, spec).run();
}

}  // namespace fourfold::planner
