// A cluster with round numbers, for tests that compute by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/cluster/cluster.hpp"

namespace fourfold::test {

/// Hosts of four devices behind a switch and two NICs.
inline cluster::Cluster small_cluster() {
  cluster::Cluster cluster;
  cluster.name = "small";
  cluster.gpus_per_host = 4;
  cluster.device = {.name = "device",
                    .memory = Bytes(std::int64_t{16} << 30),
                    .usable_memory = 0.5,
                    .memory_bandwidth = BytesPerSecond(1e12),
                    .usable_bandwidth = 0.5,
                    .bf16 = FlopsPerSecond(100e12),
                    .f32 = FlopsPerSecond(10e12),
                    .f64 = FlopsPerSecond(5e12),
                    .product_efficiency = {{64, 0.2}, {1024, 0.8}},
                    .attention_efficiency = 0.4,
                    .kernel_start = Seconds(1e-6),
                    .slowdown = 1};
  cluster.network.inside_bandwidth = BytesPerSecond(200e9);
  cluster.network.inside_usable = 0.5;
  cluster.network.inside_latency = Seconds(1e-6);
  cluster.network.nics = 2;
  cluster.network.nic_bandwidth = BytesPerSecond(20e9);
  cluster.network.nic_usable = 0.5;
  cluster.network.nic_latency = Seconds(5e-6);
  return cluster;
}

}  // namespace fourfold::test
