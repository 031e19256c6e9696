// Traces of replayed steps: when operations were issued, began and ended, and whose they are.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/plan/replay.hpp"

#include "tests/plan/steps.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using comm::Span;
using grid::Axis;
using grid::Grid;
using report::RankTrace;
using schedule::Collective;
using schedule::Op;
using schedule::Schedule;

constexpr std::int64_t kSecond = 2'000'000'000;  // bytes of a gather that takes a second

std::vector<RankTrace> traces_of(const std::vector<Schedule>& schedules, const Grid& grid,
                                 const Cluster& cluster = plain_cluster()) {
  return plan::replay(schedules, grid, cluster, {.traces = true}).traces;
}

std::vector<Span> operations_of(const RankTrace& trace) {
  std::vector<Span> found;
  for (const Span& span : trace.spans) {
    if (span.kind == Span::Kind::kOperation) found.push_back(span);
  }
  return found;
}

void expect_times(const Span& span, double issued, double begin, double end) {
  EXPECT_NEAR(span.issued.value(), issued, 1e-9) << span.name;
  EXPECT_NEAR(span.begin.value(), begin, 1e-9) << span.name;
  EXPECT_NEAR(span.end.value(), end, 1e-9) << span.name;
}

TEST(ReplayTrace, OperationsOfAQueueAreIssuedAndBeginAtDifferentTimes) {
  Schedule schedule;
  schedule.issue(gather(kSecond), Axis::kX, 2, 0, 1);
  compute(schedule, 0.25);
  Collective reduce = gather(kSecond / 2);
  reduce.op = Op::kReduceScatter;
  schedule.issue(reduce, Axis::kX, 2, 0, 1);
  schedule.wait(0);
  schedule.wait(1);
  const RankTrace trace = traces_of({schedule}, Grid({.x = 2})).at(0);
  const std::vector<Span> operations = operations_of(trace);
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0].name, "all_gather");
  expect_times(operations[0], 0, 0, 1);
  EXPECT_EQ(operations[1].name, "reduce_scatter");
  expect_times(operations[1], 0.25, 1, 1.5);
  ASSERT_GT(trace.steps[0].number, 0) << "a step of the steady state";
  for (const Span& span : trace.spans) EXPECT_EQ(span.step, trace.steps[0].number) << span.name;
}

/// The operation of the step before ends in this one.
TEST(ReplayTrace, AnOperationMayBeginBeforeTheStep) {
  Schedule schedule;
  compute(schedule, 1);
  schedule.wait(-1);
  schedule.issue(gather(2 * kSecond), Axis::kX, 2, 0, 1);
  compute(schedule, 1);
  const RankTrace trace = traces_of({schedule}, Grid({.x = 2})).at(0);
  EXPECT_NEAR(trace.steps[0].end.value(), 2, 1e-9);
  const std::vector<Span> operations = operations_of(trace);
  ASSERT_EQ(operations.size(), 1U);
  expect_times(operations[0], -1, -1, 1);
}

/// Each place has issued its side of a message at a time of its own, and begins its step at a time
/// of its own.
TEST(ReplayTrace, PlacesHaveTimesOfTheirOwn) {
  Cluster cluster = plain_cluster();
  cluster.gpus_per_host = 2;
  std::vector<Schedule> schedules(2);
  const auto send = schedules[0].issue({.op = Op::kSend, .root = 1}, Axis::kPipe, 2, 0, 1);
  compute(schedules[0], 1);
  schedules[0].wait(send);
  compute(schedules[1], 4);
  schedules[1].wait(schedules[1].issue({.op = Op::kRecv, .root = 0}, Axis::kPipe, 2, 1, 1));
  compute(schedules[1], 1);
  const std::vector<RankTrace> traces = traces_of(schedules, Grid({.x = 2, .pipe = 2}), cluster);
  ASSERT_EQ(traces.size(), 2U);
  // The first place ends its step with the message, a second before the other one.
  EXPECT_NEAR(traces[0].steps[0].begin.value(), 0, 1e-9);
  EXPECT_NEAR(traces[1].steps[0].begin.value(), 1, 1e-9);
  expect_times(operations_of(traces[0]).at(0), 0, 5, 5);
  expect_times(operations_of(traces[1]).at(0), 5, 5, 5);
  EXPECT_EQ(traces[0].host, "0");
  EXPECT_EQ(traces[1].host, "1");
}

}  // namespace
}  // namespace fourfold::test
