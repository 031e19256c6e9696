// Schedules for tests that compute by hand, and a cluster whose numbers make that easy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::test {

/// One device a host, 1 GB/s between hosts, no latency and no start of kernels.
inline cluster::Cluster plain_cluster() {
  cluster::Cluster cluster;
  cluster.name = "plain";
  cluster.device.memory_bandwidth = BytesPerSecond(1e15);
  cluster.device.bf16 = FlopsPerSecond(1e12);
  cluster.device.product_efficiency = {{1, 1.0}};
  cluster.network.library = cluster::Library::kFourfold;
  cluster.network.inside_bandwidth = BytesPerSecond(10e9);
  cluster.network.nic_bandwidth = BytesPerSecond(1e9);
  return cluster;
}

/// A stretch of compute that takes this long on the plain cluster.
inline void compute(schedule::Schedule& schedule, double seconds) {
  schedule.compute({.name = "work",
                    .arithmetic = {.work = schedule::Work::kProduct,
                                   .dtype = schedule::DType::kBF16,
                                   .extent = {1, 1, 1},
                                   .flops = Flops(seconds * 1e12)},
                    .layer = "layer"});
}

/// A gather of f32 between two ranks: on the plain cluster half of its bytes cross the link.
inline schedule::Collective gather(std::int64_t bytes,
                                   schedule::Priority priority = schedule::Priority::kUrgent) {
  return {.op = schedule::Op::kAllGather, .priority = priority, .count = bytes / 4};
}

}  // namespace fourfold::test
