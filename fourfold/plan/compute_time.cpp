// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/compute_time.hpp"

#include <algorithm>

namespace fourfold::plan {

namespace {

/// Clusters whose library is NCCL or RCCL have GPUs, which multiply bf16. Others are CPUs.
bool multiplies_bf16(const cluster::Cluster& cluster) {
  return cluster.network.library == cluster::Library::kNccl;
}

/// What the device does for the recorded arithmetic.
schedule::Arithmetic on_device(schedule::Arithmetic done, const cluster::Cluster& cluster) {
  if (!done.widened || !multiplies_bf16(cluster)) return done;
  const std::int64_t wide = schedule::size_of(done.dtype);
  done.dtype = schedule::DType::kBF16;
  done.bytes = Bytes(done.bytes.value() * schedule::size_of(done.dtype) / wide);
  return done;
}

}  // namespace

Seconds seconds_of(const schedule::Compute& compute, const cluster::Cluster& cluster) {
  const cluster::Device& device = cluster.device;
  const schedule::Arithmetic done = on_device(compute.arithmetic, cluster);
  if (done.widened && done.work == schedule::Work::kMemory && multiplies_bf16(cluster)) return {};
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
