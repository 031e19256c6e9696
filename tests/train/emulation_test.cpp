// What a user is told about ranks that emulate slower devices.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"
#include "fourfold/train/device.hpp"

namespace fourfold::test {
namespace {

/// The warning after a step of five milliseconds on this machine, in which there is a millisecond
/// of work for a device of 1 GFLOP/s.
std::string warning_of(const config::DeviceConfig& config) {
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  tensor::MemoryMeter meter;
  train::Device device(world, config, meter);
  device.begin_step();
  const Seconds begin = now();
  while (now() - begin < Seconds(5e-3)) {
  }
  mesh.compute("product", {.flops = Flops(1e6)});
  device.end_step();
  return device.warning(mesh);
}

TEST(EmulatedDevices, TellHowMuchTooSlowTheMachineWas) {
  config::DeviceConfig config;
  EXPECT_EQ(warning_of(config), "") << "nothing is emulated";
  config.gflops = 1;
  const std::string start =
      "the machine was too slow to keep up with device.gflops = 1: steps are up to ";
  const std::string warning = warning_of(config);
  ASSERT_TRUE(warning.starts_with(start)) << warning;
  std::size_t digits = 0;
  EXPECT_GE(std::stod(warning.substr(start.size()), &digits), 399);
  EXPECT_EQ(warning.substr(start.size() + digits),
            "% longer than such a device's; use fewer ranks or a slower device");
  config.gbytes_per_second = 2;
  EXPECT_NE(warning_of(config).find(" device.gflops = 1 and device.gbytes_per_second = 2: "),
            std::string::npos);
}

}  // namespace
}  // namespace fourfold::test
