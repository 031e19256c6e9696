// Measures the latency and bandwidth of groups of ranks, with all groups of a kind at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/comm/world.hpp"

namespace fourfold::planner {

/// The time of an operation that all ranks run at once: that of the slowest rank, and of several
/// rounds the median. Collective.
Seconds slowest(const comm::Communicator& everyone, int rounds, const std::function<void()>& run);

/// The same, but of several rounds the shortest. For compute, which nothing but other programs can
/// make slower. Collective.
Seconds fastest(const comm::Communicator& everyone, int rounds, const std::function<void()>& run);

/// A value that a quarter of all are below. Other programs make times longer and never shorter.
template <class T>
T lower_quartile(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 4];
}

/// A short piece of work of every rank, repeated so often.
using Work = std::function<void(int times, const std::function<void()>& after_each)>;

/// One kind of group, of which `comm` is that of this rank. The latency is that of operations
/// between pieces of `work`, as in training: ranks are never ready at quite the same time. Without
/// work it is that of operations in a row. What is sent lies in the memory of `device`. Collective
/// over everyone.
cluster::MeasuredGroup measure_group(const comm::Communicator& comm,
                                     const comm::Communicator& everyone,
                                     const cluster::GroupShape& shape, int rounds,
                                     const Work& work = {}, c10::Device device = c10::kCPU);

/// Groups of every size and distance that divide the number of ranks; each shape once. All of them
/// are measured in every round; of latencies the lower quartile counts, of bandwidths the median.
/// Collective.
std::vector<cluster::MeasuredGroup> measure_groups(
    comm::World& world, const comm::Communicator& everyone, int ranks_per_host, int rounds,
    const Work& work, const std::function<void(const std::string&)>& show,
    c10::Device device = c10::kCPU);

}  // namespace fourfold::planner
