// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/compute_time.hpp"

#include <algorithm>
#include <cmath>

namespace fourfold::plan {

Seconds seconds_of(const schedule::Compute& compute, const cluster::Cluster& cluster) {
  const cluster::Device& device = cluster.device;
  const auto side = static_cast<std::int64_t>(std::cbrt(compute.flops.value() / 2));
  const double efficiency = device.efficiency_of_product(side, side, side);
  const Seconds arithmetic = compute.flops / (device.peak(schedule::DType::kBF16) * efficiency);
  const Seconds memory = compute.bytes / (device.memory_bandwidth * device.usable_bandwidth);
  return device.kernel_start + std::max(arithmetic, memory);
}

}  // namespace fourfold::plan
