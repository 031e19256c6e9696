// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/device.hpp"

#include <cmath>

#include "fourfold/base/text.hpp"
#include "fourfold/train/all_ranks.hpp"
#include "fourfold/train/rank_memory.hpp"

namespace fourfold::train {

namespace {

constexpr double kGiga = 1e9;

/// The settings that an emulated device consists of: "device.gflops = 2".
std::string settings(const config::DeviceConfig& config) {
  std::vector<std::string> parts;
  if (config.gflops > 0) parts.push_back(concat("device.gflops = ", config.gflops));
  if (config.gbytes_per_second > 0) {
    parts.push_back(concat("device.gbytes_per_second = ", config.gbytes_per_second));
  }
  return join(parts, " and ");
}

std::string describe(const tensor::MemoryExcess& excess, int rank) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < tensor::kPlannedClasses; ++i) {
    const auto kind = static_cast<tensor::MemoryClass>(i);
    parts.push_back(concat(to_string(kind), " ", excess.use[kind]));
  }
  return concat("rank ", rank, " needs ", excess.bytes, " more for ", to_string(excess.kind),
                " and has ", excess.use.total(), " already (", join(parts, ", "),
                "), but device.memory_gib allows ", excess.limit,
                "; use more ranks, a smaller train.micro_batch or train.checkpoint_activations = "
                "true, or raise device.memory_gib");
}

}  // namespace

tensor::DeviceRates device_rates(const config::DeviceConfig& config) {
  return {FlopsPerSecond(config.gflops * kGiga), BytesPerSecond(config.gbytes_per_second * kGiga)};
}

Device::Device(comm::World& world, const config::DeviceConfig& config, tensor::MemoryMeter& meter)
    : config_(config), meter_(&meter) {
  if (config.memory_gib > 0 && config.kind == config::DeviceKind::kCpu) {
    meter.set_limit(memory_of_device(config),
                    [rank = world.rank()](const tensor::MemoryExcess& excess) {
                      return describe(excess, rank);
                    });
  }
  const tensor::DeviceRates rates = device_rates(config);
  if (!rates.any()) return;
  // The communication of a device does not wait for its compute. Nothing is lost by looking more
  // often: while the device computes, this core sleeps.
  constexpr Seconds kRest{1e-3};
  world.rest_at_most(kRest);
  emulated_.emplace(rates);
  observation_ = world.observe(*emulated_);
}

void Device::begin_step() {
  if (emulated_) emulated_->begin_step();
}

void Device::end_step() {
  if (emulated_) emulated_->end_step();
}

std::string Device::about() const {
  if (!emulated_) return {};
  return concat("each rank emulates a device of ", to_string(device_rates(config_)));
}

std::string Device::warning(const tensor::Mesh& mesh) const {
  if (!emulated_) return {};
  constexpr double kMuch = 0.03;
  const Seconds ideal = emulated_->in_steps() - emulated_->lag();
  const double own = ideal > Seconds() ? emulated_->lag() / ideal : 1;
  const double share = largest(mesh, own);
  if (share <= kMuch) return {};
  return concat("the machine was too slow to keep up with ", settings(config_),
                ": steps are up to ", std::round(100 * share),
                "% longer than such a device's; use fewer ranks or a slower device");
}

FlopsPerSecond peak_rate(const tensor::Mesh& mesh, const config::DeviceConfig& config,
                         at::ScalarType type) {
  if (config.gflops > 0) return device_rates(config).flops * mesh.everyone().size();
  return measure_gemm_rate(mesh, type);
}

}  // namespace fourfold::train
