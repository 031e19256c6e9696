// Operations on devices: who waits for whom, and what observers hear. The devices are those of the
// stand-in.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/comm/flight_log.hpp"
#include "fourfold/comm/flight_recorder.hpp"
#include "fourfold/comm/timeline.hpp"

#include "tests/formats/scratch_folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/stand_in_rank.hpp"

namespace fourfold::test {
namespace {

using stand_in::Machine;

TEST(Device, TheHostNeverWaits) {
  const Machine machine({});
  on_threads(2, [](comm::World& world) {
    const Compute compute(world);
    const comm::Communicator all = world.communicator(everyone(world));
    std::vector<float> data(100, 1.F);
    double word = 0;
    const comm::View message{&word, 1, comm::DType::kF64};
    // Rank 1 hears of the operation when rank 0 has waited for it.
    if (world.rank() == 1) all.recv(message, 0).wait();
    comm::Work sum = all.all_reduce(on_device(data));
    sum.wait();
    if (world.rank() == 0) all.send(message, 1).wait();
    world.resolve();
    expect_on_all_ranks(world, data[99] == 2, "the sum");
  });
  EXPECT_TRUE(machine.faults().empty());
}

TEST(Device, LanesMayBeUsedInAnyOrder) {
  const Machine machine({});
  on_threads(2, [](comm::World& world) {
    const Compute compute(world);
    const comm::Communicator a = world.communicator(everyone(world), world.reserve_lanes(1), 0);
    const comm::Communicator b = world.communicator(everyone(world), world.reserve_lanes(1), 1);
    std::vector<float> in_a(10, 1.F);
    std::vector<float> in_b(10, 2.F);
    std::vector<comm::Work> works;
    const bool first = world.rank() == 0;
    works.push_back((first ? a : b).all_reduce(on_device(first ? in_a : in_b)));
    works.push_back((first ? b : a).all_reduce(on_device(first ? in_b : in_a)));
    for (comm::Work& work : works) work.wait();
    world.resolve();
    expect_on_all_ranks(world, in_a[9] == 2 && in_b[9] == 4, "sums");
  });
  EXPECT_TRUE(machine.faults().empty());
}

TEST(Device, BothKindsOfMemoryInOneLane) {
  const Machine machine({});
  on_threads(3, [](comm::World& world) {
    const Compute compute(world);
    const comm::Communicator all = world.communicator(everyone(world));
    std::vector<float> device(50, 1.F);
    std::vector<float> host(50, 1.F);
    for (int round = 0; round < 5; ++round) {
      comm::Work first = all.all_reduce(on_device(device));
      all.all_reduce(comm::view(host)).wait();
      first.wait();
    }
    world.resolve();
    expect_on_all_ranks(world, device[7] == 243 && host[7] == 243, "sums");
  });
}

TEST(Device, RefusesWhatIsNotInOneMemory) {
  const Machine machine({});
  on_threads(1, [](comm::World& world) {
    const comm::Communicator all = world.communicator(everyone(world));
    std::vector<float> data(4);
    std::vector<float> other(4);
    EXPECT_THROW(static_cast<void>(all.all_reduce(on_device(data))), InvariantError);
    stand_in::use_device(world);
    EXPECT_THROW(static_cast<void>(all.all_gather(comm::view(data), on_device(other))),
                 InvariantError);
    EXPECT_THROW(static_cast<void>(all.all_reduce({comm::view(data), on_device(other)})),
                 InvariantError);
  });
}

// --- observers

TEST(Device, TimelinesHaveTheTimesOfTheDevice) {
  const Machine machine({});
  on_threads(2, [](comm::World& world) {
    const Compute compute(world);
    const comm::Communicator all = world.communicator(everyone(world));
    std::vector<float> data(100, 1.F);
    all.all_reduce(on_device(data)).wait();  // makes the communicator
    world.reset_counters();
    comm::Timeline timeline;
    const comm::Observation observation = world.observe(timeline);
    timeline.begin_step(5);
    const auto sleep = [](int ms) {
      return [ms] { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
    };
    compute.launch("product", {}, sleep(30));
    world.computed("product", {});
    // Rank 1 gets here later, so rank 0 waits.
    if (world.rank() == 1) compute.launch("more", {}, sleep(200));
    all.all_reduce(on_device(data)).wait();
    compute.launch("last", {}, sleep(10));
    world.computed("last", {});
    world.resolve();
    timeline.end_step();
    const comm::Counts counts = world.counters();
    const comm::Count& count = counts.begin()->second;
    std::string found;
    const auto longest = [&](const auto& of) {
      double most = -1;
      for (const comm::Span& span : timeline.spans()) {
        if (of(span)) most = std::max(most, (span.end - span.begin).value());
      }
      return most;
    };
    for (const comm::Span& span : timeline.spans()) {
      found += concat(span.name, " ", span.end - span.begin, "; ");
    }
    const auto named = [&](const char* name) {
      return longest([&](const comm::Span& span) { return span.name == name; });
    };
    const double waited =
        longest([](const comm::Span& span) { return span.kind == comm::Span::Kind::kWait; });
    // A busy machine makes everything longer, and one rank later than the other.
    const bool right =
        named("all_reduce") >= 0 && named("product") > 0.025 && named("last") > 0.007;
    expect_on_all_ranks(world, right, "spans: " + found);
    expect_on_all_ranks(world, world.rank() == 1 || waited > 0.02, "rank 0 waited: " + found);
    expect_on_all_ranks(world, count.calls == 1 && count.exposed_seconds > Seconds(), "counters");
    expect_on_all_ranks(world, world.rank() == 1 || count.exposed_seconds > Seconds(0.02),
                        "exposed time");
  });
}

class DeviceFlight : public ScratchFolder {};

TEST_F(DeviceFlight, LogsWhatTheDeviceIsAt) {
  const Machine machine({});
  on_threads(2, [&](comm::World& world) {
    const Compute compute(world);
    const comm::Communicator all = world.communicator(everyone(world));
    const std::filesystem::path file = path(comm::flight_file(world.rank()));
    comm::FlightRecorder recorder(world, file);
    std::vector<float> data(10, 1.F);
    std::vector<float> later(10, 1.F);
    std::atomic<bool> go = false;
    compute.launch("until told", {}, [&] {
      while (!go) std::this_thread::yield();
    });
    comm::Work first = all.all_reduce(on_device(data));
    comm::Work second = all.all_reduce(on_device(later));
    first.wait();
    second.wait();
    const comm::FlightLog during = comm::read_flight_log(file);
    go = true;
    world.resolve();
    const comm::FlightLog after = comm::read_flight_log(file);
    expect_on_all_ranks(world,
                        during.operations.size() == 2 && during.operations[0].ended == 0 &&
                            during.waiting_for == during.operations[0].number,
                        "it is at the first");
    expect_on_all_ranks(world, after.operations[1].ended > 0 && after.waiting_for == -1,
                        "it is done");
  });
}

/// Where steps follow each other without a wait of the host, every operation counts once, in this
/// step or in a later one, and so does what compute waited.
TEST(Device, CountersOfWhatHasEndedLoseNothing) {
  const Machine machine({});
  on_threads(2, [](comm::World& world) {
    const Compute compute(world);
    const comm::Communicator all = world.communicator(everyone(world));
    std::vector<float> data(100, 0.F);
    all.all_reduce(on_device(data)).wait();  // makes the communicator
    world.reset_counters();
    std::atomic<bool> go = false;
    compute.launch("until told", {}, [&] {
      while (!go) std::this_thread::yield();
    });
    all.all_reduce(on_device(data)).wait();
    world.report_ended();  // does not wait
    const bool none = world.take_counters_so_far().empty();
    go = true;
    comm::Counts counts;
    std::int64_t calls = 0;
    Seconds exposed;
    const auto add = [&](const comm::Counts& more) {
      for (const auto& [key, count] : more) {
        calls += count.calls;
        exposed += count.exposed_seconds;
      }
    };
    constexpr int kSteps = 30;
    for (int step = 0; step < kSteps; ++step) {
      // Rank 1 gets to it later, so rank 0 waits.
      if (world.rank() == 1) {
        compute.launch("more", {},
                       [] { std::this_thread::sleep_for(std::chrono::milliseconds(4)); });
      }
      all.all_reduce(on_device(data)).wait();
      add(world.take_counters_so_far());
    }
    add(world.take_counters());
    const bool all_taken = world.counters().empty();
    expect_on_all_ranks(world, none, "what has not ended counts");
    expect_on_all_ranks(world, calls == kSteps + 1, concat(calls, " calls"));
    expect_on_all_ranks(world, world.rank() == 1 || exposed > Seconds(0.02), "exposed time");
    expect_on_all_ranks(world, all_taken, "all has been taken");
  });
  EXPECT_TRUE(machine.faults().empty());
}

/// The clock of the device is carried on without a wait: else times would fall behind, and a
/// timeline would leave out what ends before the span before it.
TEST(Device, TimesAreRightLongAfterTheHostHasWaited) {
  const Machine machine({});
  on_threads(1, [](comm::World& world) {
    const Compute compute(world);
    comm::Timeline timeline;
    const comm::Observation observation = world.observe(timeline);
    timeline.begin_step(1);
    const auto rest = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
    for (int i = 0; i < 30; ++i) {
      compute.launch("product", {}, [&] { rest(2); });
      world.computed("product", {});
      rest(4);
      world.report_ended();
    }
    world.resolve();
    timeline.end_step();
    int products = 0;
    for (const comm::Span& span : timeline.spans()) products += span.name == "product" ? 1 : 0;
    EXPECT_GE(products, 20);  // the machine may be busy while the clocks are compared
  });
}

// --- the memory of communicators

/// Trials of several strategies in one process, each with lanes of its own.
TEST(Device, ReleasedCommunicatorsDoNotPileUp) {
  for (const unsigned seed : {1U, 2U, 3U}) {
    const Machine machine({.seed = seed, .resident = 64});
    on_threads(3, [&](comm::World& world) {
      const Compute compute(world);
      const comm::Communicator kept = world.communicator(everyone(world));
      const int next = (world.rank() + 1) % 3;
      const int previous = (world.rank() + 2) % 3;
      for (int strategy = 0; strategy < 5; ++strategy) {
        const comm::Communicator own =
            world.communicator(everyone(world), world.reserve_lanes(1), 1);
        std::vector<float> data(10, 1.F);
        std::vector<float> more(10, 1.F);
        std::vector<float> sent(10, static_cast<float>(world.rank()));
        std::vector<float> got(10);
        // A rank is far ahead of the others when it comes here.
        if (strategy % 3 == world.rank())
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        std::vector<comm::Work> works;
        works.push_back(own.recv(on_device(got), previous));
        works.push_back(own.send(on_device(sent), next));
        works.push_back(own.all_reduce(on_device(data)));
        works.push_back(kept.all_reduce(on_device(more)));
        for (comm::Work& work : works) work.wait();
        world.resolve();
        expect_on_all_ranks(world,
                            data[9] == 3 && more[9] == 3 && got[9] == static_cast<float>(previous),
                            concat("results of strategy ", strategy));
        world.release_device_communicators();
        // All have left the functions above, and none makes new ones before the next message.
        world.communicator(everyone(world)).barrier().wait();
        const int left = machine.communicators();
        world.communicator(everyone(world)).barrier().wait();
        expect_on_all_ranks(world, left == 0, concat(left, " communicators are left"));
      }
    });
    EXPECT_EQ(machine.faults(), std::vector<std::string>());
    EXPECT_EQ(machine.communicators(), 0);
  }
}

TEST(Device, WithoutADeviceThereIsNothingToRelease) {
  on_threads(2, [](comm::World& world) {
    // No rank waits for another one.
    if (world.rank() == 0) world.release_device_communicators();
    world.report_ended();
  });
}

}  // namespace
}  // namespace fourfold::test
