// Replayed pipelines against times computed by hand.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/plan/replay.hpp"

#include "tests/plan/steps.hpp"

namespace fourfold::test {
namespace {

using cluster::Cluster;
using grid::Axis;
using grid::Grid;
using plan::Replayed;
using schedule::Collective;
using schedule::Op;
using schedule::Schedule;

constexpr int kForward = 1;  // lanes
constexpr int kBackward = 2;
constexpr int kEveryone = 3;

/// One place of a pipeline with the order 1F1B: receives when it needs something, sends at once and
/// waits for what it has sent at the end.
class OneForwardOneBackward {
 public:
  OneForwardOneBackward(int places, int place, std::int64_t count)
      : places_(places), place_(place), count_(count) {}

  Schedule schedule(int batches, double forward, double backward) {
    const int ahead = std::min(batches, places_ - 1 - place_);
    for (int i = 0; i < ahead; ++i) pass(kForward, place_ - 1, place_ + 1, forward);
    for (int i = ahead; i < batches; ++i) {
      pass(kForward, place_ - 1, place_ + 1, forward);
      pass(kBackward, place_ + 1, place_ - 1, backward);
    }
    for (int i = 0; i < ahead; ++i) pass(kBackward, place_ + 1, place_ - 1, backward);
    for (const std::int64_t number : sent_) schedule_.wait(number);
    return schedule_;
  }

 private:
  bool exists(int place) const { return place >= 0 && place < places_; }

  void pass(int lane, int from, int to, double seconds) {
    if (exists(from)) {
      const Collective receive{.op = Op::kRecv, .count = count_, .root = from};
      schedule_.wait(schedule_.issue(receive, Axis::kPipe, places_, place_, lane));
    }
    compute(schedule_, seconds);
    if (exists(to)) {
      const Collective send{.op = Op::kSend, .count = count_, .root = to};
      sent_.push_back(schedule_.issue(send, Axis::kPipe, places_, place_, lane));
    }
  }

  int places_;
  int place_;
  std::int64_t count_;
  Schedule schedule_;
  std::vector<std::int64_t> sent_;
};

std::vector<Schedule> pipeline(int places, int batches, double forward, double backward,
                               std::int64_t count = 0) {
  std::vector<Schedule> all;
  for (int place = 0; place < places; ++place) {
    all.push_back(OneForwardOneBackward(places, place, count).schedule(batches, forward, backward));
  }
  return all;
}

TEST(PipelineReplay, FillsAndDrains) {
  for (const auto& [places, batches] : {std::pair{2, 2}, {2, 5}, {4, 4}, {4, 9}, {7, 3}}) {
    const double forward = 1;
    const double backward = 2.25;
    const Grid grid({.pipe = places});
    const Replayed replayed =
        plan::replay(pipeline(places, batches, forward, backward), grid, plain_cluster());
    const double expected = (batches + places - 1) * (forward + backward);
    EXPECT_NEAR(replayed.step.value(), expected, 1e-6) << places << " places, " << batches;
    for (const plan::PlaceTime& place : replayed.places) {
      EXPECT_NEAR(place.step.value(), expected, 1e-6);
      EXPECT_NEAR(place.compute.value(), batches * (forward + backward), 1e-6);
      EXPECT_NEAR(place.exposed.value(), (places - 1) * (forward + backward), 1e-6);
      EXPECT_NEAR(place.exposed_by_axes.at("pipe").value(), place.exposed.value(), 1e-9);
    }
  }
}

TEST(PipelineReplay, OneBatchPaysForEveryMessage) {
  // Four places, one batch: 3 messages forward and 3 back, a fourth of a second each.
  const Grid grid({.pipe = 4});
  const auto schedules = pipeline(4, 1, 1, 2, 250'000'000 / 4);
  const Replayed replayed = plan::replay(schedules, grid, plain_cluster());
  EXPECT_NEAR(replayed.step.value(), 4 * 3 + 6 * 0.25, 1e-6);
}

TEST(PipelineReplay, MessagesInsideAHostAreFaster) {
  // Places 0 and 1 are on one host, 2 and 3 on the other: 10 GB/s inside, 1 GB/s between them.
  Cluster cluster = plain_cluster();
  cluster.gpus_per_host = 2;
  const auto schedules = pipeline(4, 1, 1, 2, 250'000'000 / 4);
  const Replayed replayed = plan::replay(schedules, Grid({.pipe = 4}), cluster);
  EXPECT_NEAR(replayed.step.value(), 4 * 3 + 2 * (0.25 + 2 * 0.025), 1e-6);
}

TEST(PipelineReplay, MessagesInBothDirectionsDoNotShareALink) {
  // Each of two places sends the other a second of data at the same time.
  std::vector<Schedule> schedules(2);
  for (int place = 0; place < 2; ++place) {
    Schedule& schedule = schedules[static_cast<std::size_t>(place)];
    const Collective send{.op = Op::kSend, .count = 250'000'000, .root = 1 - place};
    Collective receive = send;
    receive.op = Op::kRecv;
    const auto sent = schedule.issue(send, Axis::kPipe, 2, place, kForward);
    const auto received = schedule.issue(receive, Axis::kPipe, 2, place, kForward);
    schedule.wait(sent);
    schedule.wait(received);
  }
  EXPECT_NEAR(plan::replay(schedules, Grid({.pipe = 2}), plain_cluster()).step.value(), 1, 1e-9);
}

TEST(PipelineReplay, CollectivesOverPipeWaitForAllPlaces) {
  std::vector<Schedule> schedules(3);
  for (int place = 0; place < 3; ++place) {
    Schedule& schedule = schedules[static_cast<std::size_t>(place)];
    compute(schedule, 1 + place);
    const Collective norm{.op = Op::kAllReduce, .count = 2};
    schedule.wait(schedule.issue(norm, Axis::kPipe, 3, place, kEveryone));
  }
  const Replayed replayed = plan::replay(schedules, Grid({.pipe = 3}), plain_cluster());
  EXPECT_NEAR(replayed.step.value(), 3, 1e-6);
  EXPECT_NEAR(replayed.places[0].exposed.value(), 2, 1e-6);
  EXPECT_NEAR(replayed.places[2].exposed.value(), 0, 1e-6);
  EXPECT_NEAR(replayed.busiest().compute.value(), 3, 1e-6);
}

/// Lanes are independent: places may issue operations of different lanes in different orders.
TEST(PipelineReplay, CollectivesOverPipeHaveTheOrderOfTheirLane) {
  std::vector<Schedule> schedules(2);
  for (int place = 0; place < 2; ++place) {
    Schedule& schedule = schedules[static_cast<std::size_t>(place)];
    for (const int turn : {place, 1 - place}) {
      const Collective one{.op = Op::kAllReduce, .count = 2 + turn};
      schedule.issue(one, Axis::kPipe, 2, place, kEveryone + turn);
    }
    compute(schedule, 1);
    schedule.wait(0);
    schedule.wait(1);
  }
  EXPECT_NEAR(plan::replay(schedules, Grid({.pipe = 2}), plain_cluster()).step.value(), 1, 1e-6);
}

TEST(PipelineReplay, CollectivesOfOnePlaceAreItsOwn) {
  // Each place gathers over x, in the same lane but at its own time; the slower one decides.
  std::vector<Schedule> schedules(2);
  for (int place = 0; place < 2; ++place) {
    Schedule& schedule = schedules[static_cast<std::size_t>(place)];
    compute(schedule, 1);
    const std::int64_t bytes = (place + 1) * 2'000'000'000L;
    schedule.wait(schedule.issue(gather(bytes), Axis::kX, 2, 0, kEveryone));
  }
  const Grid grid({.x = 2, .pipe = 2});
  const Replayed replayed = plan::replay(schedules, grid, plain_cluster());
  EXPECT_NEAR(replayed.places[0].step.value(), 2, 1e-6);
  EXPECT_NEAR(replayed.places[1].step.value(), 3, 1e-6);
  EXPECT_NEAR(replayed.step.value(), 3, 1e-6);
  std::swap(schedules[0], schedules[1]);
  EXPECT_NEAR(plan::replay(schedules, grid, plain_cluster()).step.value(), 3, 1e-6);
}

/// The steps of place 1 take 3, 4, 4, ... seconds, those of place 0 always one.
TEST(PipelineReplay, EndsWhenTheStepsOfAllPlacesRepeat) {
  std::vector<Schedule> schedules(2);
  compute(schedules[0], 1);
  compute(schedules[1], 1);
  schedules[1].wait(-1);
  compute(schedules[1], 2);
  schedules[1].issue(gather(4'000'000'000), Axis::kX, 2, 0, kForward);
  const Grid grid({.x = 2, .pipe = 2});
  Replayed replayed = plan::replay(schedules, grid, plain_cluster(), {.traces = true});
  EXPECT_EQ(replayed.steps, 3);
  EXPECT_TRUE(replayed.periodic);
  const comm::Timeline::Step& traced = replayed.traces[1].steps[0];
  EXPECT_NEAR((traced.end - traced.begin).value(), 4, 1e-9);
  EXPECT_EQ(traced.number, 2) << "the last one";
  EXPECT_EQ(plan::replay(schedules, grid, plain_cluster(), {.most_steps = 3}).steps, 3);
  // Without room for a third step the second one is reported, and that it did not repeat.
  replayed = plan::replay(schedules, grid, plain_cluster(), {.most_steps = 2});
  EXPECT_EQ(replayed.steps, 2);
  EXPECT_FALSE(replayed.periodic);
  EXPECT_NEAR(replayed.places[1].step.value(), 4, 1e-9);
  EXPECT_NEAR(replayed.places[1].exposed.value(), 1, 1e-9);
}

TEST(PipelineReplay, APlaceThatIsAheadDoesNotWaitForTheOthersStep) {
  // Place 0 hands on one message a step. Place 1 takes longer, and its receive holds place 0 back
  // only by the message that has not been taken.
  std::vector<Schedule> schedules(2);
  compute(schedules[0], 1);
  const Collective send{.op = Op::kSend, .root = 1};
  schedules[0].wait(schedules[0].issue(send, Axis::kPipe, 2, 0, kForward));
  const Collective receive{.op = Op::kRecv, .root = 0};
  schedules[1].wait(schedules[1].issue(receive, Axis::kPipe, 2, 1, kForward));
  compute(schedules[1], 4);
  const Replayed replayed = plan::replay(schedules, Grid({.pipe = 2}), plain_cluster());
  EXPECT_NEAR(replayed.step.value(), 4, 1e-6);
  EXPECT_NEAR(replayed.places[1].exposed.value(), 0, 1e-6) << "the next message is already there";
}

TEST(PipelineReplay, TracesOfAllPlaces) {
  const plan::ReplayOptions options{.traces = true};
  const Grid grid({.x = 2, .pipe = 4});
  const Replayed replayed = plan::replay(pipeline(4, 4, 1, 2), grid, plain_cluster(), options);
  ASSERT_EQ(replayed.traces.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const report::RankTrace& trace = replayed.traces[i];
    EXPECT_EQ(trace.rank, static_cast<int>(2 * i));
    EXPECT_EQ(trace.place, concat("pipe=", i));
    EXPECT_GE(trace.steps[0].begin, Seconds(0));
    double busy = 0;
    for (const comm::Span& span : trace.spans) {
      if (span.kind != comm::Span::Kind::kOperation) busy += (span.end - span.begin).value();
    }
    EXPECT_NEAR(busy, replayed.places[i].step.value(), 1e-6);
  }
}

std::string refusal(const std::vector<Schedule>& schedules, const Grid& grid) {
  try {
    plan::replay(schedules, grid, plain_cluster());
  } catch (const InvariantError& error) {
    return error.what();
  }
  return "a replay";
}

TEST(PipelineReplay, RefusesSchedulesThatDoNotBelongTogether) {
  const Grid grid({.pipe = 2});
  const auto expect = [&](const std::vector<Schedule>& schedules, std::string_view said) {
    const std::string refused = refusal(schedules, grid);
    EXPECT_NE(refused.find(said), std::string::npos) << refused;
  };
  auto schedules = pipeline(2, 3, 1, 1);
  EXPECT_EQ(refusal(schedules, grid), "a replay");
  schedules[1] = pipeline(2, 2, 1, 1)[1];
  expect(schedules, "operations of places 1 and 0");
  schedules = {pipeline(2, 2, 1, 1)[0], pipeline(2, 3, 1, 1)[1]};
  expect(schedules, "place 1 issues more operations than place 0");
  schedules = pipeline(2, 3, 1, 1);
  schedules[1] = pipeline(2, 3, 1, 1, 8)[1];
  expect(schedules, "operations do not match");
  // One place alone takes part in what all places do.
  schedules = {Schedule(), Schedule()};
  schedules[0].issue({.op = Op::kBarrier}, Axis::kPipe, 2, 0, kEveryone);
  expect(schedules, "places take part in");
  schedules[1].issue({.op = Op::kAllReduce, .count = 2}, Axis::kPipe, 2, 1, kEveryone);
  expect(schedules, "operations do not match");
  // There is one operation in a step, and none before the last step.
  schedules = {Schedule(), Schedule()};
  for (Schedule& schedule : schedules) {
    schedule.wait(-2);
    schedule.issue(gather(8), Axis::kX, 1, 0, kForward);
  }
  expect(schedules, "an earlier step than the last");
  // Both receive before they send.
  schedules = {Schedule(), Schedule()};
  for (int place = 0; place < 2; ++place) {
    Schedule& schedule = schedules[static_cast<std::size_t>(place)];
    const Collective receive{.op = Op::kRecv, .root = 1 - place};
    const Collective send{.op = Op::kSend, .root = 1 - place};
    schedule.wait(schedule.issue(receive, Axis::kPipe, 2, place, kForward));
    schedule.issue(send, Axis::kPipe, 2, place, kForward);
  }
  expect(schedules, "stand still for ever");
}

}  // namespace
}  // namespace fourfold::test
