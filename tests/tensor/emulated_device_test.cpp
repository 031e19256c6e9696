// A rank with an emulated device takes at least as long as such a device.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/emulated_device.hpp"

#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/comm/timeline.hpp"
#include "fourfold/comm/world.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using tensor::DeviceRates;
using tensor::EmulatedDevice;

const DeviceRates kRates{FlopsPerSecond(1e9), BytesPerSecond(1e8)};
constexpr double kMicrosecond = 1e-6;

schedule::Arithmetic flops_of(double milliseconds) {
  return {.flops = Flops(1e6 * milliseconds)};
}

TEST(EmulatedDevice, ArithmeticOrMemoryTakesLonger) {
  const schedule::Arithmetic more_flops{.flops = Flops(2e9), .bytes = Bytes(100'000'000)};
  const schedule::Arithmetic more_bytes{.flops = Flops(1e9), .bytes = Bytes(300'000'000)};
  EXPECT_EQ(kRates.time_of(more_flops), Seconds(2));
  EXPECT_EQ(kRates.time_of(more_bytes), Seconds(3));
  EXPECT_EQ((DeviceRates{FlopsPerSecond(1e9), {}}).time_of(more_bytes), Seconds(1));
  EXPECT_EQ((DeviceRates{{}, BytesPerSecond(1e8)}).time_of(more_flops), Seconds(1));
  EXPECT_EQ(DeviceRates().time_of(more_flops), Seconds(0));
  EXPECT_FALSE(DeviceRates().any());
  EXPECT_EQ(to_string(kRates), "1.00 GFLOP/s and 100 MB/s");
}

TEST(EmulatedDevice, ARankTakesAtLeastTheTimeOfItsDevice) {
  comm::World world = comm::recording::open(0, 1);
  EmulatedDevice device(kRates);
  const comm::Observation observation = world.observe(device);
  const Seconds begin = now();
  device.begin_step();
  world.computed("large", flops_of(20));
  EXPECT_GE((now() - begin).value(), 20e-3 - kMicrosecond);
  for (int i = 0; i < 1000; ++i) world.computed("small", flops_of(0.01));
  device.end_step();
  EXPECT_GE((now() - begin).value(), 30e-3 - kMicrosecond);
  EXPECT_GE(device.in_steps().value(), 30e-3 - kMicrosecond);
}

TEST(EmulatedDevice, ATimelineSeesTheTimeOfTheDevice) {
  comm::World world = comm::recording::open(0, 1);
  EmulatedDevice device(kRates);
  comm::Timeline timeline;
  const comm::Observation first = world.observe(device);
  const comm::Observation second = world.observe(timeline);
  device.begin_step();
  timeline.begin_step(1);
  world.computed("product", flops_of(10));
  timeline.end_step();
  const comm::Span span = timeline.spans().at(0);
  EXPECT_EQ(span.name, "product");
  EXPECT_GE((span.end - span.begin).value(), 9e-3);
}

/// What a world reports of an operation with this number.
class Operation {
 public:
  explicit Operation(std::int64_t number) : number_(number) {}

  void end(EmulatedDevice& device, Seconds at) const {
    device.ended(observed(), {{}, at - Seconds(1e-3), at});
  }
  void wait(EmulatedDevice& device, const std::optional<comm::Blocked>& blocked = {}) const {
    device.waited(observed(), blocked);
  }

 private:
  comm::Observed observed() const { return {number_, collective_, group_}; }

  std::int64_t number_;
  schedule::Collective collective_;
  grid::Group group_;
};

TEST(EmulatedDevice, AWaitDoesNotShortenWhatItComputes) {
  EmulatedDevice device(kRates);
  const Operation operation(0);
  const Seconds begin = now();
  device.begin_step();
  operation.end(device, begin + Seconds(1e-3));
  device.computed({"product", flops_of(10)});
  operation.wait(device);  // it has ended long ago
  device.computed({"product", flops_of(10)});
  EXPECT_GE((now() - begin).value(), 20e-3 - kMicrosecond);
}

TEST(EmulatedDevice, WorkBeginsAfterTheOperationThatItWaitsFor) {
  EmulatedDevice device(kRates);
  const Operation operation(0);
  device.begin_step();
  const Seconds end = now() + Seconds(15e-3);
  operation.end(device, end);
  operation.wait(device, comm::Blocked{now(), end});
  device.computed({"product", flops_of(10)});
  EXPECT_GE((now() - end).value(), 10e-3 - kMicrosecond);
}

/// The machine computes for longer than the device would.
void compute_for(Seconds duration) {
  const Seconds begin = now();
  while (now() - begin < duration) {
  }
}

TEST(EmulatedDevice, KnowsWhenTheMachineIsTooSlow) {
  EmulatedDevice device({FlopsPerSecond(1e15), {}});
  const Seconds earliest = now();
  device.begin_step();
  const Seconds latest = now();
  compute_for(Seconds(5e-3));
  device.computed({"product", flops_of(1)});
  // The device would have begun to wait soon after the step began. The wait itself is no lag.
  const Seconds since = now();
  const Seconds end = since + Seconds(50e-3);
  const Operation operation(0);
  operation.end(device, end);
  operation.wait(device, comm::Blocked{since, end});
  EXPECT_GE(device.lag(), since - latest - Seconds(kMicrosecond));
  EXPECT_LE(device.lag(), since - earliest);
  device.end_step();
  EXPECT_GE(now(), end - Seconds(kMicrosecond)) << "the device waits for longer than the machine";
}

TEST(EmulatedDevice, KnowsWhenTheMachineEndsAStepLate) {
  EmulatedDevice device({FlopsPerSecond(1e15), {}});
  device.begin_step();
  compute_for(Seconds(5e-3));
  device.end_step();
  EXPECT_GE(device.lag(), Seconds(5e-3 - kMicrosecond));
  // Time between steps is not the device's: it has not waited for what ended before the step.
  const Seconds lag = device.lag();
  compute_for(Seconds(5e-3));
  const Operation operation(0);
  operation.end(device, now());
  device.begin_step();
  operation.wait(device);
  EXPECT_EQ(device.lag(), lag);
  const Seconds first = device.in_steps();
  const Seconds begin = now();
  compute_for(Seconds(5e-3));
  const Seconds computed = now() - begin;
  device.end_step();
  EXPECT_GE(device.in_steps(), first + computed - Seconds(kMicrosecond)) << "of both steps";
}

TEST(EmulatedDevice, WhatIsWaitedForOutsideOfStepsIsNoLag) {
  EmulatedDevice device(kRates);
  const Operation before(0);
  before.end(device, now());
  before.wait(device, comm::Blocked{now(), now()});  // the clock of the device has not begun
  EXPECT_EQ(device.lag(), Seconds());
  device.begin_step();
  device.end_step();
  const Seconds lag = device.lag();
  const Operation between(1);
  const Seconds later = now() + Seconds(1);
  between.end(device, later);
  between.wait(device, comm::Blocked{later, later});
  EXPECT_EQ(device.lag(), lag);
}

TEST(EmulatedDevice, SleepsWhileOtherRanksCommunicate) {
  on_threads(2, [](comm::World& world) {
    const comm::Communicator both = world.communicator(everyone(world));
    EmulatedDevice device(kRates);
    const comm::Observation observation = world.observe(device);
    std::vector<float> data(1000, 1.F);
    device.begin_step();
    const Seconds begin = now();
    comm::Work sum = both.all_reduce(comm::view(data));
    world.computed("product", flops_of(10));
    sum.wait();
    world.computed("product", flops_of(10));
    device.end_step();
    const Seconds took = now() - begin;
    expect_on_all_ranks(world, took >= Seconds(20e-3 - kMicrosecond), concat("took ", took));
    expect_on_all_ranks(world, data[0] == 2.F, "the sum");
  });
}

}  // namespace
}  // namespace fourfold::test
