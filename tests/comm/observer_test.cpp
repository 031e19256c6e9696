// What a rank reports to those who observe it.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/observer.hpp"

#include <mutex>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/counters.hpp"
#include "fourfold/comm/layer_scope.hpp"
#include "fourfold/comm/phase_scope.hpp"
#include "fourfold/comm/recorder.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/comm/timeline.hpp"
#include "fourfold/comm/world.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using comm::Blocked;
using comm::Observed;
using comm::Run;

/// Writes down everything that it is told.
class Listener final : public comm::Observer {
 public:
  void computed(const comm::Computed& done) override {
    const schedule::Arithmetic& a = done.arithmetic;
    add(concat("computed ", done.name, ": ", a.work, " ", a.flops.value(), " ", a.bytes.value(),
               " for ", done.layer, ", ", done.phase));
  }
  void issued(const Observed& operation, std::string_view layer) override {
    if (first < 0) first = operation.number;
    add(concat("issued ", described(operation), " for ", layer));
  }
  void ended(const Observed& operation, const Run& run) override {
    add(concat("ended ", described(operation)));
    sent += run.sent;
    times = times && run.started <= run.ended;
  }
  void awaited(std::int64_t number) override { add(concat("awaited #", number - first)); }
  void waited(const Observed& operation, const std::optional<Blocked>& blocked) override {
    add(concat("waited ", described(operation)));
    times = times && (!blocked || blocked->since > Seconds());
  }

  std::vector<std::string> told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  schedule::Traffic sent;
  bool times = true;
  std::int64_t first = -1;

 private:
  std::string described(const Observed& operation) const {
    return concat("#", operation.number - first, " ", operation.collective.op, " of ",
                  operation.group.size(), " on lane ", operation.lane);
  }
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    told_.push_back(what);
  }

  mutable std::mutex mutex_;
  std::vector<std::string> told_;
};

using Told = std::vector<std::string>;

grid::Group alone(const comm::World& world) {
  grid::Group group;
  group.members = {world.rank()};
  return group;
}

TEST(Observer, IsToldWhatARankDoes) {
  on_threads(2, [](comm::World& world) {
    const comm::Communicator both = world.communicator(everyone(world));
    const comm::Communicator one = world.communicator(alone(world));
    std::vector<float> data(1000, 1.F);
    both.all_reduce(comm::view(data)).wait();
    world.reset_counters();
    Listener listener;
    comm::Observation observation = world.observe(listener);
    {
      const comm::LayerScope scope("h.1");
      comm::Work sum = both.all_reduce(comm::view(data));
      const comm::PhaseScope phase(schedule::Phase::kRecompute);
      world.computed("product", schedule::product_of({1, 2, 3}, schedule::DType::kF32, Bytes(4)));
      sum.wait();
    }
    { const comm::Work dropped = one.all_reduce(comm::view(data)); }
    observation.stop();
    both.barrier().wait();
    const comm::Counts counts = world.counters();
    // The operation may end at any time after it was issued.
    Told told = listener.told();
    const std::string end = concat("ended #0 all_reduce of 2 on lane ", both.lane());
    expect_on_all_ranks(world, std::erase(told, end) == 1, join(listener.told(), "\n"));
    const Told expected = {concat("issued #0 all_reduce of 2 on lane ", both.lane(), " for h.1"),
                           "computed product: product 12 4 for h.1, recompute",
                           "awaited #0",
                           concat("waited #0 all_reduce of 2 on lane ", both.lane()),
                           concat("issued #1 all_reduce of 1 on lane ", one.lane(), " for "),
                           concat("ended #1 all_reduce of 1 on lane ", one.lane()),
                           "awaited #1"};
    expect_on_all_ranks(world, told == expected, join(listener.told(), "\n"));
    expect_on_all_ranks(world, listener.times, "times are in order");
    schedule::Traffic counted;
    for (const auto& [key, count] : counts) {
      if (key.op == schedule::Op::kAllReduce) counted += count.wire;
    }
    expect_on_all_ranks(world, listener.sent == counted, "the counters were told the same");
  });
}

TEST(Observer, ARecordingWorldReportsWithoutTimes) {
  comm::World world = comm::recording::open(0, 4);
  const comm::Communicator all = world.communicator(everyone(world));
  Listener listener;
  comm::Timeline timeline;
  const comm::Observation first = world.observe(listener);
  const comm::Observation second = world.observe(timeline);
  timeline.begin_step(1);
  all.all_reduce({nullptr, 1000, comm::DType::kF32}).wait();
  timeline.end_step();
  const Told expected = {concat("issued #0 all_reduce of 4 on lane ", all.lane(), " for "),
                         concat("ended #0 all_reduce of 4 on lane ", all.lane()), "awaited #0"};
  EXPECT_EQ(listener.told(), expected);
  EXPECT_EQ(listener.sent, world.counters().begin()->second.wire);
  for (const comm::Span& span : timeline.spans()) EXPECT_EQ(span.kind, comm::Span::Kind::kCompute);
}

TEST(Observer, SeveralComeAndGo) {
  comm::World world = comm::recording::open(0, 2);
  const comm::Communicator all = world.communicator(everyone(world));
  Listener one;
  Listener two;
  comm::Observation of_one = world.observe(one);
  all.barrier().wait();
  {
    const comm::Observation of_two = world.observe(two);
    EXPECT_THROW(static_cast<void>(world.observe(two)), InvariantError);
    all.barrier().wait();
    EXPECT_EQ(two.told().size(), 3U);
    of_one.stop();
    of_one.stop();
    all.barrier().wait();
  }
  all.barrier().wait();
  EXPECT_EQ(one.told().size(), 6U);
  EXPECT_EQ(two.told().size(), 6U);
  EXPECT_EQ(world.counters().begin()->second.calls, 4);
  of_one = world.observe(one);
  world.computed("product", {});
  EXPECT_EQ(one.told().size(), 7U);
}

TEST(Observer, AnObservationMayOutliveItsWorld) {
  Listener listener;
  comm::Observation observation;
  {
    comm::World world = comm::recording::open(0, 2);
    observation = world.observe(listener);
    world.computed("product", {});
  }
  observation.stop();
  EXPECT_EQ(listener.told().size(), 1U);
}

TEST(Counters, CountFromAnOperationOn) {
  const schedule::Collective collective{.op = schedule::Op::kAllReduce, .count = 10};
  const grid::Group group;
  comm::Counters counters(5);
  for (const std::int64_t number : {4, 5, 6}) {
    const Observed operation{number, collective, group};
    counters.ended(operation, {{}, Seconds(1), Seconds(3)});
    counters.waited(operation, Blocked{Seconds(2), Seconds(3)});
    counters.waited(operation, std::nullopt);
    // The operation ended while the rank began to wait.
    counters.waited(operation, Blocked{Seconds(4), Seconds(3)});
  }
  const comm::Counts counts = counters.counts();
  ASSERT_EQ(counts.size(), 1U);
  const comm::Count& count = counts.begin()->second;
  EXPECT_EQ(count.calls, 2);
  EXPECT_EQ(count.payload, Bytes(80));
  EXPECT_EQ(count.seconds, Seconds(4));
  EXPECT_EQ(count.exposed_seconds, Seconds(2));
}

/// The progress thread may report an end while observers come and go.
TEST(Observer, MayLeaveWhileOperationsAreUnderWay) {
  on_threads(2, [](comm::World& world) {
    const comm::Communicator both = world.communicator(everyone(world));
    std::vector<float> data(20000, 1.F);
    for (int i = 0; i < 200; ++i) {
      comm::Work sum = both.all_reduce(comm::view(data));
      Listener listener;
      const comm::Observation observation = world.observe(listener);
      if (i % 2 == 0) sum.wait();
    }
    expect_on_all_ranks(world, world.counters().begin()->second.calls == 200, "every one counts");
  });
}

}  // namespace
}  // namespace fourfold::test
