// The device of a rank, as [device] describes it: emulated rates, and a limit for its memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fourfold/comm/world.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/tensor/emulated_device.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::train {

tensor::DeviceRates device_rates(const config::DeviceConfig& config);

/// While it lives, the rank computes as fast as its device, and the tensors that `meter` counts
/// stay within device.memory_gib: a tensor that would exceed it throws ConfigError. It costs
/// nothing where neither is set. A GPU is limited where it is opened (`open_device`).
class Device {
 public:
  Device(comm::World& world, const config::DeviceConfig& config, tensor::MemoryMeter& meter);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { meter_->lift_limit(); }

  void begin_step();
  void end_step();

  /// What the user should know before the first step; empty if nothing is emulated.
  std::string about() const;
  /// A warning if the machine was too slow for the device on any rank; empty otherwise. Collective.
  std::string warning(const tensor::Mesh& mesh) const;

 private:
  config::DeviceConfig config_;
  tensor::MemoryMeter* meter_;
  std::optional<tensor::EmulatedDevice> emulated_;
  comm::Observation observation_;
};

/// The rate of all ranks together that mfu refers to: that of the devices if it is emulated, else
/// what products of that type reach. Collective.
FlopsPerSecond peak_rate(const tensor::Mesh& mesh, const config::DeviceConfig& config,
                         at::ScalarType type);

}  // namespace fourfold::train
