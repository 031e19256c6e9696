// A schedule as a value: what it records, compares, sums and prints.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/schedule/schedule.hpp"

#include <sstream>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using schedule::Collective;
using schedule::Compute;
using schedule::DType;
using schedule::Issue;
using schedule::Op;
using schedule::Phase;
using schedule::Priority;
using schedule::ReduceOp;
using schedule::Schedule;
using schedule::Traffic;
using schedule::Wait;
using schedule::Work;

const Collective kReduce{.op = Op::kAllReduce, .count = 1 << 20};
const Collective kGather{
    .op = Op::kAllGather, .dtype = DType::kBF16, .priority = Priority::kBackground, .count = 4096};

const Compute kProduct{"linear",
                       schedule::product_of({1000, 1000, 1000}, DType::kBF16, Bytes(3 << 20))};

/// A product whose weights are gathered before it and whose output is reduced behind it.
Schedule linear() {
  Schedule schedule;
  const auto weights = schedule.issue(kGather, Axis::kZ, 2, 1, 1);
  schedule.wait(weights);
  schedule.compute(kProduct);
  const auto output = schedule.issue(kReduce, {Axis::kY, Axis::kX}, 4, 3, 0);
  schedule.wait(output);
  return schedule;
}

TEST(Schedule, NumbersOperationsInOrderOverAllLanes) {
  Schedule schedule;
  EXPECT_EQ(schedule.operations(), 0);
  EXPECT_EQ(schedule.issue(kReduce, Axis::kX, 2, 0, 5), 0);
  schedule.compute({"between"});
  EXPECT_EQ(schedule.issue(kGather, Axis::kY, 2, 0, 0), 1);
  schedule.wait(0);
  EXPECT_EQ(schedule.issue(kGather, Axis::kY, 2, 0, 5), 2);
  EXPECT_EQ(schedule.operations(), 3);
}

TEST(Schedule, KnowsTheLayerAndThePhaseOfCompute) {
  Schedule schedule;
  const Compute product{"linear dW", schedule::product_of({4, 8, 2}, DType::kF32, Bytes(56)),
                        Phase::kBackward, "h.3.mlp.c_fc"};
  schedule.compute(product);
  schedule.compute(
      {"adamw", {Work::kOptimizer, DType::kF32, {}, Flops(15), Bytes(28)}, Phase::kUpdate});
  EXPECT_EQ(std::get<Compute>(schedule.steps()[0]), product);
  EXPECT_EQ(product.arithmetic.flops, Flops(2 * 4 * 8 * 2));
  EXPECT_EQ(to_string(schedule),
            "compute h.3.mlp.c_fc linear dW (backward, product 4 x 8 x 2 f32): 128 FLOP, 56 B\n"
            "compute adamw (update, optimizer f32): 15.0 FLOP, 28 B\n");
}

TEST(Schedule, KeepsItsStepsInStreamOrder) {
  const Schedule schedule = linear();
  ASSERT_EQ(schedule.steps().size(), 5U);
  EXPECT_EQ(std::get<Issue>(schedule.steps()[0]), (Issue{kGather, Axis::kZ, 2, 1, 1, 0}));
  EXPECT_EQ(std::get<Wait>(schedule.steps()[1]), Wait{0});
  EXPECT_EQ(std::get<Compute>(schedule.steps()[2]), kProduct);
  EXPECT_EQ(std::get<Issue>(schedule.steps()[3]),
            (Issue{kReduce, {Axis::kY, Axis::kX}, 4, 3, 0, 1}));
  EXPECT_EQ(std::get<Wait>(schedule.steps()[4]), Wait{1});
}

TEST(Schedule, RefusesAWaitForWhatWasNeverIssued) {
  Schedule schedule;
  EXPECT_THROW(schedule.wait(0), InvariantError);
  schedule.issue(kReduce, Axis::kX, 2, 0, 0);
  EXPECT_NO_THROW(schedule.wait(0));
  EXPECT_THROW(schedule.wait(1), InvariantError);
  EXPECT_EQ(schedule.steps().size(), 2U) << "a refused wait leaves no step";
}

TEST(Schedule, IsEqualStepByStep) {
  EXPECT_EQ(linear(), linear());
  EXPECT_EQ(Schedule(), Schedule());
  EXPECT_NE(linear(), Schedule());
  Schedule longer = linear();
  longer.compute({"more"});
  EXPECT_NE(longer, linear());
  const Schedule copy = longer;
  EXPECT_EQ(copy, longer);
}

TEST(Schedule, DiffersInEveryPartOfAStep) {
  const auto issued = [](const Collective& c, const Axes& axes, int size, int index, int lane) {
    Schedule schedule;
    schedule.issue(c, axes, size, index, lane);
    return schedule;
  };
  const Schedule base = issued(kReduce, Axis::kX, 4, 1, 0);
  EXPECT_EQ(issued(kReduce, Axis::kX, 4, 1, 0), base);
  EXPECT_NE(issued(kGather, Axis::kX, 4, 1, 0), base);
  EXPECT_NE(issued(kReduce, Axis::kY, 4, 1, 0), base);
  EXPECT_NE(issued(kReduce, Axis::kX, 2, 1, 0), base);
  EXPECT_NE(issued(kReduce, Axis::kX, 4, 2, 0), base);
  EXPECT_NE(issued(kReduce, Axis::kX, 4, 1, 1), base);
  Schedule across_hosts;
  across_hosts.issue(kReduce, Axis::kX, 4, 1, 0, schedule::Reach::kNetwork);
  EXPECT_NE(across_hosts, base);
  // One change of each member of a compute.
  const Compute same{
      "a", {Work::kProduct, DType::kF32, {1, 2, 3}, Flops(1), Bytes(2)}, Phase::kForward, "l"};
  std::vector<Compute> others(10, same);
  others[0].name = "b";
  others[1].arithmetic.work = Work::kMemory;
  others[2].arithmetic.dtype = DType::kBF16;
  others[3].arithmetic.extent.m = 0;
  others[4].arithmetic.extent.k = 0;
  others[5].arithmetic.extent.n = 0;
  others[6].arithmetic.flops = Flops(2);
  others[7].arithmetic.bytes = Bytes(1);
  others[8].phase = Phase::kBackward;
  others[9].layer = "m";
  const auto computed = [](const Compute& step) {
    Schedule schedule;
    schedule.compute(step);
    return schedule;
  };
  EXPECT_EQ(computed(same), computed(same));
  for (const Compute& other : others) EXPECT_NE(computed(other), computed(same));
}

/// A step that issues two operations, and then waits for these.
Schedule step_of(const Collective& first, const std::vector<std::int64_t>& waits) {
  Schedule schedule;
  for (const std::int64_t number : waits) {
    if (number < 0) schedule.wait(number);
  }
  schedule.issue(first, Axis::kX, 2, 0, 0);
  schedule.issue(kGather, Axis::kX, 2, 0, 0);
  for (const std::int64_t number : waits) {
    if (number >= 0) schedule.wait(number);
  }
  return schedule;
}

TEST(Schedule, IsPeriodicWhenEveryOperationIsWaitedForOnce) {
  const Schedule left_one = step_of(kReduce, {0});
  EXPECT_NO_THROW(check_periodic(step_of(kReduce, {0, 1}), step_of(kReduce, {0, 1})));
  EXPECT_NO_THROW(check_periodic(left_one, step_of(kReduce, {0, -1})));
  EXPECT_NO_THROW(check_periodic(step_of(kReduce, {}), step_of(kReduce, {-1, -2})));
  EXPECT_THROW(check_periodic(left_one, left_one), InvariantError) << "the second is never awaited";
  EXPECT_THROW(check_periodic(left_one, step_of(kReduce, {0, 1, -1})), InvariantError);
  EXPECT_THROW(check_periodic(left_one, step_of(kReduce, {0, 1, -3})), InvariantError);
  EXPECT_THROW(check_periodic(step_of(kGather, {0, 1}), step_of(kReduce, {0, 1})), InvariantError);
  EXPECT_THROW(check_periodic(Schedule(), step_of(kReduce, {0, 1})), InvariantError);
  EXPECT_EQ(schedule::to_string(schedule::Step(Wait{-1})), "wait for #-1, of the step before");
}

TEST(Schedule, SumsItsTraffic) {
  EXPECT_EQ(Schedule().traffic(), Traffic{});
  Traffic expected = schedule::traffic_of(kGather, 2, 1);
  expected += schedule::traffic_of(kReduce, 4, 3);
  EXPECT_EQ(linear().traffic(), expected);
  EXPECT_EQ(expected.bytes.value(), 4096 + 2 * 3 * (1 << 20));  // (p-1)/p and 2(p-1)/p of each
  for (int index : {0, 1, 3}) {  // of a tree over four: the root sends twice, a leaf not at all
    Schedule one;
    const Collective broadcast{.op = Op::kBroadcast, .count = 10};
    one.issue(broadcast, Axis::kX, 4, index, 0);
    EXPECT_EQ(one.traffic(), schedule::traffic_of(broadcast, 4, index));
    EXPECT_EQ(one.traffic().messages, index == 0 ? 2 : 0);
  }
  Schedule across_hosts;
  across_hosts.issue(kReduce, Axis::kX, 4, 1, 0, schedule::Reach::kNetwork);
  EXPECT_EQ(across_hosts.traffic(), schedule::traffic_of(kReduce, 4, 1, schedule::Reach::kNetwork));
  EXPECT_EQ(schedule::to_string(across_hosts),
            "issue #0 on lane 0: all_reduce sum of 1048576 f32 over x (1 of 4, across hosts)\n");
  Schedule alone;
  alone.issue(kReduce, Axis::kX, 1, 0, 0);
  EXPECT_EQ(alone.traffic(), Traffic{});
}

TEST(Schedule, PrintsALineAStep) {
  const std::string expected =
      "issue #0 on lane 1: all_gather of 4096 bf16, background over z (1 of 2)\n"
      "wait for #0\n"
      "compute linear (forward, product 1000 x 1000 x 1000 bf16): 2.00 GFLOP, 3.00 MiB\n"
      "issue #1 on lane 0: all_reduce sum of 1048576 f32 over y+x (3 of 4)\n"
      "wait for #1\n";
  EXPECT_EQ(schedule::to_string(linear()), expected);
  std::ostringstream out;
  out << linear();
  EXPECT_EQ(out.str(), expected);
  EXPECT_EQ(schedule::to_string(Schedule()), "");
}

TEST(Collective, Prints) {
  const auto text = [](const Collective& c) { return schedule::to_string(c); };
  EXPECT_EQ(text({}), "barrier");
  EXPECT_EQ(text({.op = Op::kAllReduce, .count = 1024}), "all_reduce sum of 1024 f32");
  EXPECT_EQ(text({.op = Op::kBroadcast,
                  .dtype = DType::kBF16,
                  .priority = Priority::kBackground,
                  .count = 10,
                  .root = 2}),
            "broadcast from 2 of 10 bf16, background");
  EXPECT_EQ(text({.op = Op::kReduce,
                  .dtype = DType::kI64,
                  .reduce = ReduceOp::kMax,
                  .count = 3,
                  .root = 1}),
            "reduce max to 1 of 3 i64");
  EXPECT_EQ(text({.op = Op::kReduceScatter, .dtype = DType::kF64, .count = 8}),
            "reduce_scatter sum of 8 f64");
  EXPECT_EQ(text({.op = Op::kSend, .count = 5, .root = 4}), "send to 4 of 5 f32");
  EXPECT_EQ(text({.op = Op::kRecv, .count = 5, .root = 4}), "recv from 4 of 5 f32");
}

TEST(Collective, PayloadIsTheWholeTensor) {
  EXPECT_EQ((Collective{.dtype = DType::kF64, .count = 10}).payload(), Bytes(80));
  EXPECT_EQ((Collective{.dtype = DType::kI64, .count = 10}).payload(), Bytes(80));
  EXPECT_EQ((Collective{.dtype = DType::kF32, .count = 10}).payload(), Bytes(40));
  EXPECT_EQ((Collective{.dtype = DType::kBF16, .count = 10}).payload(), Bytes(20));
  const Collective huge{.dtype = DType::kF64, .count = std::int64_t{1} << 40};
  EXPECT_EQ(huge.payload().value(), std::int64_t{1} << 43);
}

}  // namespace
}  // namespace fourfold::test
