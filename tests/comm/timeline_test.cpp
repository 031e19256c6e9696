// The spans of a rank, and the clocks of several.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/timeline.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/comm/clock.hpp"
#include "fourfold/comm/layer_scope.hpp"
#include "fourfold/comm/world.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using comm::Span;
using comm::Timeline;

void rest(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

std::vector<Span> of_kind(const Timeline& timeline, Span::Kind kind) {
  std::vector<Span> found;
  for (const Span& span : timeline.spans()) {
    if (span.kind == kind) found.push_back(span);
  }
  return found;
}

/// Compute and waits follow each other from the step's begin to its end.
bool has_no_holes(const Timeline& timeline) {
  for (const Timeline::Step& step : timeline.steps()) {
    Seconds reached = step.begin;
    for (const Span& span : timeline.spans()) {
      if (span.kind == Span::Kind::kOperation || span.step != step.number) continue;
      if (span.begin != reached || span.end <= span.begin) return false;
      reached = span.end;
    }
    if (reached != step.end) return false;
  }
  return true;
}

TEST(Timeline, ComputeAndWaitsFillTheStep) {
  Timeline timeline;
  timeline.compute({"before any step", {}});
  timeline.begin_step(7);
  rest(2);
  timeline.compute({"product", schedule::product_of({1, 3, 5}, schedule::DType::kF32, Bytes(40)),
                    schedule::Phase::kBackward});
  rest(1);
  const Seconds begin = now();
  rest(1);
  timeline.wait({.name = "all_gather", .axes = "x", .lane = 3, .begin = begin});
  rest(1);
  timeline.end_step();
  timeline.compute({"after it", {}});
  const std::vector<Span> spans = timeline.spans();
  ASSERT_EQ(spans.size(), 4U);
  EXPECT_EQ(spans[0].name, "product");
  EXPECT_EQ(spans[0].flops, Flops(30));
  EXPECT_EQ(spans[0].bytes, Bytes(40));
  EXPECT_EQ(spans[0].work, schedule::Work::kProduct);
  EXPECT_EQ(spans[0].phase, schedule::Phase::kBackward);
  EXPECT_EQ(spans[0].step, 7);
  EXPECT_EQ(spans[1].name, "other");
  EXPECT_EQ(spans[1].work, std::nullopt);
  EXPECT_EQ(spans[2].kind, Span::Kind::kWait);
  EXPECT_EQ(spans[2].begin, begin);
  EXPECT_EQ(spans[2].lane, 3);
  EXPECT_EQ(spans[3].name, "other");
  EXPECT_TRUE(has_no_holes(timeline));
}

TEST(Timeline, OperationsBelongToTheStepThatIssuedThem) {
  Timeline timeline;
  timeline.operation({.name = "before any step"});
  timeline.begin_step(1);
  const Seconds in_first = now();
  rest(1);
  timeline.end_step();
  rest(1);
  const Seconds between = now();
  rest(1);
  timeline.begin_step(2);
  rest(1);
  const Seconds in_second = now();
  timeline.operation({.name = "from before", .issued = Seconds()});
  timeline.operation({.name = "first", .issued = in_first});
  timeline.operation({.name = "between", .issued = between});
  timeline.operation({.name = "second", .issued = in_second});
  rest(1);
  timeline.end_step();
  rest(1);
  timeline.operation({.name = "late", .issued = in_second});
  timeline.operation({.name = "after", .issued = now()});
  std::vector<std::pair<std::string, std::int64_t>> found;
  for (const Span& span : of_kind(timeline, Span::Kind::kOperation)) {
    found.emplace_back(span.name, span.step);
  }
  const std::vector<std::pair<std::string, std::int64_t>> expected = {
      {"from before", 1}, {"first", 1}, {"second", 2}, {"late", 2}};
  EXPECT_EQ(found, expected);
}

TEST(Timeline, NamesTheLayerOfTheInnermostScope) {
  EXPECT_EQ(comm::LayerScope::current(), "");
  const comm::LayerScope outer("h.0");
  {
    const comm::LayerScope inner("h.0.mlp");
    EXPECT_EQ(comm::LayerScope::current(), "h.0.mlp");
  }
  EXPECT_EQ(comm::LayerScope::current(), "h.0");
  on_threads(2, [](comm::World& world) {
    const bool own = comm::LayerScope::current().empty();
    expect_on_all_ranks(world, own, "each thread has scopes of its own");
    const comm::Communicator comm = world.communicator(everyone(world));
    std::vector<float> data(1000, 1.0F);
    Timeline timeline;
    comm::Observation observation = world.observe(timeline);
    timeline.begin_step(1);
    if (world.rank() == 0) rest(30);  // rank 1 has to wait
    comm::Work sum;
    {
      const comm::LayerScope scope("h.1.attn");
      sum = comm.all_reduce(comm::view(data));
    }
    {
      const comm::LayerScope scope("h.2");
      sum.wait();
      world.computed("sum", {});
    }
    timeline.end_step();
    comm.barrier().wait();
    observation.stop();
    const std::vector<Span> operations = of_kind(timeline, Span::Kind::kOperation);
    const std::vector<Span> waits = of_kind(timeline, Span::Kind::kWait);
    expect_on_all_ranks(world, operations.at(0).layer == "h.1.attn", "who issued it");
    const bool waited = world.rank() == 0 || waits.at(0).layer == "h.1.attn";
    expect_on_all_ranks(world, waited, "whose operation is waited for");
    const auto computed = of_kind(timeline, Span::Kind::kCompute);
    const bool named = std::any_of(computed.begin(), computed.end(), [](const Span& span) {
      return span.name == "sum" && span.layer == "h.2";
    });
    expect_on_all_ranks(world, named, "who computed");
  });
}

TEST(Timeline, HasOperationsAndWaitsOfAWorld) {
  on_threads(2, [](comm::World& world) {
    const comm::Communicator comm = world.communicator(everyone(world));
    std::vector<float> data(1000, 1.0F);
    comm.all_reduce(comm::view(data)).wait();
    Timeline timeline;
    comm::Observation observation = world.observe(timeline);
    timeline.begin_step(1);
    if (world.rank() == 0) rest(30);  // rank 1 has to wait
    comm.all_reduce(comm::view(data)).wait();
    world.computed("sum", {});
    comm.barrier().wait();
    observation.stop();
    comm.all_reduce(comm::view(data)).wait();
    timeline.end_step();

    const std::vector<Span> operations = of_kind(timeline, Span::Kind::kOperation);
    const std::vector<Span> waits = of_kind(timeline, Span::Kind::kWait);
    expect_on_all_ranks(world, has_no_holes(timeline), "compute and waits leave holes");
    expect_on_all_ranks(world, operations.size() == 2, "two operations were traced");
    const bool right = operations[0].name == "all_reduce" && operations[0].axes == "x" &&
                       operations[0].bytes == Bytes(4000) && operations[0].lane == comm.lane() &&
                       operations[1].name == "barrier";
    expect_on_all_ranks(world, right, "they are described");
    const bool in_order = operations[0].issued <= operations[0].begin &&
                          operations[0].begin < operations[0].end &&
                          operations[0].end <= operations[1].begin;
    expect_on_all_ranks(world, in_order, "operations of a lane follow each other");
    const bool waited = world.rank() == 0 || (!waits.empty() && waits[0].name == "all_reduce" &&
                                              waits[0].end - waits[0].begin > Seconds(0.02));
    expect_on_all_ranks(world, waited, "the rank that had to wait says so");
  });
}

TEST(Clock, OffsetBringsTimesToTheFirstRank) {
  on_threads(3, [](comm::World& world) {
    const comm::Communicator comm = world.communicator(everyone(world));
    expect_on_all_ranks(world, comm::clock_offset(comm) == Seconds(), "it is one clock");
    const Seconds wrong(100.0 * world.rank());
    const Seconds offset = comm::clock_offset(comm, [&] { return now() + wrong; });
    expect_on_all_ranks(world, std::abs((offset + wrong).value()) < 0.01,
                        concat("the clock is wrong by ", wrong, ", found ", offset));
  });
}

}  // namespace
}  // namespace fourfold::test
