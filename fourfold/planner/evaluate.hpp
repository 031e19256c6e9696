// The memory and the time of a candidate: dry runs of its ranks, replayed on a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/plan/replay.hpp"
#include "fourfold/planner/candidate.hpp"
#include "fourfold/train/dry_run.hpp"

namespace fourfold::planner {

/// What a rank of each place of the pipeline does in a step, and what it holds.
struct Recorded {
  std::vector<schedule::Schedule> places;  ///< by index along pipe
  Bytes memory;                            ///< of the rank that needs the most
  tensor::MemoryUse by_class;              ///< of that rank, at its peak
};

/// A part of a step that is as exact as the whole one: fewer blocks, passes and places. Times and
/// memory are linear in each of these numbers beyond a few.
struct Reduced {
  std::int64_t blocks = 0;  ///< of a chunk
  std::int64_t passes = 0;
  int places = 1;
};

/// The places of the pipeline, or only the first ones.
Recorded record(const config::Config& config, const Candidate& candidate, const Reduced& size,
                int first_places = 0);

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
  /// time and memory follow.
  Evaluation(const config::Config& config, const Candidate& candidate);

  Bytes memory() const { return memory_; }
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

  void sum_memory(const std::vector<double>& weights, std::size_t passes);
  void add_memory_of_passes(const config::Config& config, int more);

  Candidate candidate_;
  std::vector<Point> points_;
  Bytes memory_;
  tensor::MemoryUse by_class_;
};

}  // namespace fourfold::planner
