// Lower bounds of the time and the memory of a step: no candidate whose bounds are too large needs
// dry runs of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "fourfold/base/units.hpp"
#include "fourfold/cluster/cluster.hpp"
#include "fourfold/planner/candidate.hpp"
#include "fourfold/planner/profile.hpp"
#include "fourfold/planner/workload.hpp"

namespace fourfold::planner {

/// A step is predicted from parts of it, which may make it this much shorter than it is. So bounds
/// of whole steps must be shorter, too.
inline constexpr double kInexact = 0.98;

/// How long a byte of a tensor that is gathered or summed along each axis occupies all links inside
/// a host, and all its NICs.
struct AxisLinks {
  std::array<double, grid::kAxisCount> inside{};
  std::array<double, grid::kAxisCount> nics{};
};
AxisLinks links_of(const grid::Grid& grid, const cluster::Cluster& cluster);

/// The products outside of blocks, on a rank that has them, in a pass.
Seconds head_of_pass(const Workload& load, const Candidate& candidate,
                     const cluster::Cluster& cluster);
/// The compute of a rank: its products and attention at the best efficiency that its shapes allow,
/// with the idle time of a pipeline. No placement is shorter.
Seconds compute_bound(const Workload& load, const Candidate& candidate, std::int64_t batch,
                      const cluster::Cluster& cluster);
/// The bytes of its layers on the links of its host.
Seconds link_bound(const Workload& load, const Candidate& candidate, std::int64_t batch,
                   const AxisLinks& links);
/// The longer of both, which needs no dry run. Everything else (norms, latency, waits, the update)
/// is left out, so that no replay of the candidate's schedule is shorter.
Seconds lower_bound(const Workload& load, const Candidate& candidate, std::int64_t batch,
                    const cluster::Cluster& cluster);

/// A longer bound, which knows what a block costs with all its waits. Left out is what is done
/// along data and pipe, except for its bytes, the idle time of a pipeline and the update. A profile
/// without checkpointing gives a bound for a candidate with it, and one with more samples in a pass
/// a bound for a candidate with fewer.
Seconds lower_bound(Profile& profile, const Workload& load, const config::Config& config,
                    const Candidate& candidate, const cluster::Cluster& cluster);

/// A rank holds at least this: its share of the weights, gradients and of the optimizer's state.
Bytes least_memory(const Workload& load, const Candidate& candidate);
/// Whether the places of a pipeline hold sums of the gradients of whole weights. Unless blocks are
/// computed again, gradients are summed over z when no pass is open: until then a rank holds the
/// sums of all passes.
bool holds_sums(const Candidate& candidate, std::int64_t passes);
/// The same with the activations of the passes that are under way at the same time.
Bytes least_memory(const Profile& profile, const Workload& load, const config::Config& config,
                   const Candidate& candidate);

}  // namespace fourfold::planner
