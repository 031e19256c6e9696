// A lower bound of the time of a step: no candidate whose bound is too long needs a dry run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/units.hpp"
#include "fourfold/cluster/cluster.hpp"
#include "fourfold/planner/candidate.hpp"
#include "fourfold/planner/workload.hpp"

namespace fourfold::planner {

/// The longer of two times: the products and attention of a rank at the best efficiency that its
/// shapes allow, with the idle time of a pipeline; and the bytes of its linear layers on the links
/// of its host. Everything else (norms, latency, waits, the update) is left out, so that no replay
/// of the candidate's schedule is shorter.
Seconds lower_bound(const Workload& load, const Candidate& candidate, std::int64_t batch,
                    const cluster::Cluster& cluster);

/// A rank holds at least this: its share of the weights, gradients and of the optimizer's state.
Bytes least_memory(const Workload& load, const Candidate& candidate);

}  // namespace fourfold::planner
