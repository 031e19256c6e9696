// The memory and the time of a candidate: dry runs of its ranks, replayed on a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/plan/replay.hpp"
#include "fourfold/planner/record.hpp"

namespace fourfold::planner {

/// The predicted step of a candidate.
struct Predicted {
  Candidate candidate;
  Seconds step;
  Seconds compute;  ///< of the place that computes longest
  Seconds exposed;  ///< the rest of the step: compute stands still
  std::map<std::string, Seconds> exposed_by_axes;
  Bytes memory;
  tensor::MemoryUse by_class;
};

/// Dry runs of a candidate, which can be priced for any placement.
class Evaluation {
 public:
  /// Makes the dry runs. A small step is recorded as a whole, a large one in parts from which its
  /// time and memory follow. If the first place of a pipeline needs more than `limit`, the others
  /// are not run, and the evaluation has no price.
  Evaluation(const config::Config& config, const Candidate& candidate, Bytes limit = kNoLimit,
             SharedNames names = {});
  static constexpr Bytes kNoLimit{std::numeric_limits<std::int64_t>::max()};

  /// Of the rank that needs the most; or of a rank that needs more than the limit.
  Bytes memory() const { return memory_; }
  bool is_complete() const { return !points_.empty(); }
  Predicted price(const grid::Placement& placement, const cluster::Cluster& cluster) const;

  /// A replayed step, as the first rank of each place sees it: the whole step, or the largest part
  /// of it that was recorded.
  struct Traced {
    std::vector<report::RankTrace> traces;
    bool whole = true;
    Reduced size;
  };
  Traced trace(const grid::Placement& placement, const cluster::Cluster& cluster) const;

 private:
  struct Point {
    double weight;  ///< the prediction is the weighted sum over all points
    Reduced size;
    Recorded recorded;
  };

  void sum_memory(const std::vector<double>& weights, std::size_t passes, double more_passes,
                  std::int64_t window);
  /// What the first place of a pipeline holds.
  struct FirstPlace {
    Bytes memory;
    tensor::MemoryUse by_class;
  };
  /// Of a pipeline of many places, from dry runs of shorter ones. `smallest` are the blocks of the
  /// smallest stage in each dry run, and `weights` say how much each counts.
  FirstPlace first_of_deep(const config::Config& config, const std::vector<std::int64_t>& smallest,
                           const std::vector<double>& weights) const;
  double bytes_of_sums(const model::Model& model) const;
  double correction(const std::vector<plan::Replayed>& replayed, const grid::Placement& placement,
                    const cluster::Cluster& cluster) const;

  Candidate candidate_;
  SharedNames names_;
  std::int64_t passes_ = 1;
  std::vector<Point> points_;  ///< by blocks, then by passes
  Bytes memory_;
  tensor::MemoryUse by_class_;
};

}  // namespace fourfold::planner
