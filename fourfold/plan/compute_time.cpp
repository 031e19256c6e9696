// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/compute_time.hpp"

#include <algorithm>

namespace fourfold::plan {

Seconds seconds_of(const schedule::Compute& compute, const cluster::Cluster& cluster) {
  const cluster::Device& device = cluster.device;
  schedule::Arithmetic done = compute.arithmetic;
  if (cluster.network.library == cluster::Library::kNccl) {  // TEMPORARY
    if (compute.name == "attention cast") return {};
    if (done.work == schedule::Work::kAttention) {
      done.dtype = schedule::DType::kBF16;
      done.bytes = Bytes(done.bytes.value() / 2);
    }
  }
  const FlopsPerSecond peak = device.peak(done.dtype);
  Seconds arithmetic;
  if (done.work == schedule::Work::kProduct) {
    const schedule::Extent& e = done.extent;
    arithmetic = done.flops / (peak * device.efficiency_of_product(e.m, e.k, e.n));
  } else if (done.work == schedule::Work::kAttention) {
    arithmetic = done.flops / (peak * device.attention_efficiency);
  }
  const Seconds memory = done.bytes / (device.memory_bandwidth * device.usable_bandwidth);
  return device.kernel_start + std::max(arithmetic, memory);
}

}  // namespace fourfold::plan
