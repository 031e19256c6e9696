// Operations on devices: who waits for whom, what observers hear, and what is said when one does
// not end. The devices are those of the stand-in. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/comm/flight_log.hpp"
#include "fourfold/comm/flight_recorder.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/comm/timeline.hpp"

#include "tests/formats/scratch_folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/stand_in.hpp"
#include "tests/support/watchdog.hpp"

namespace fourfold::test {
namespace {

using comm::nccl::Stream;
using stand_in::Machine;
using stand_in::Mistake;
using stand_in::Settings;

comm::View on_device(std::vector<float>& values) {
  comm::View view = comm::view(values);
  view.memory = comm::Memory::kDevice;
  return view;
}

/// What `run` throws when `body` fails, as text.
std::string failure_of(int ranks, const Body& body) {
  const HangWatchdog watchdog(Seconds(60));
  try {
    comm::thread::run(ranks,
                      [&](comm::World& world) {
                        stand_in::use_device(world);
                        body(world);
                      },
                      {.deadline = Seconds(2), .answer_time = Seconds(2)});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

/// Gives a rank a device that computes on a stream of its own.
class Compute {
 public:
  explicit Compute(comm::World& world) {
    stand_in::api().set_device(world.rank());
    stream_ = stand_in::make_compute_stream();
    comm::nccl::Options options;
    options.compute_stream = [stream = stream_] { return stream; };
    stand_in::use_device(world, options);
  }
  Stream stream() const { return stream_; }
  void launch(const char* name, const std::vector<stand_in::Range>& ranges,
              std::function<void()> body) const {
    stand_in::launch(stream_, name, ranges, std::move(body));
  }

 private:
  Stream stream_ = nullptr;
};

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
        named("all_reduce") >= 0 && named("product") > 0.029 && named("last") > 0.009;
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

// --- failures

TEST(DeviceFailure, ARankThatNeverEntersIsNamed) {
  const Machine machine({});
  const std::string text = failure_of(3, [](comm::World& world) {
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    all.all_reduce(on_device(data)).wait();
    if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(6));
    all.all_reduce(on_device(data)).wait();
  });
  expect_part(text, "all_reduce sum of 64 f32 (number 1 of group x [0 1 2])");
  expect_part(text, "rank 2 on this process is behind, it has issued 1 operations there");
  expect_part(text, "outside of communication");
  EXPECT_TRUE(machine.faults().empty());
}

TEST(DeviceFailure, ARankWithoutTheCommunicatorIsNamed) {
  const Machine machine({});
  const std::string text = failure_of(2, [](comm::World& world) {
    const int lane = world.reserve_lanes(1);
    std::vector<float> data(64, 1.F);
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(6));
    const auto all = world.communicator(everyone(world), lane);
    all.all_reduce(on_device(data)).wait();
  });
  expect_part(text, "rank 1 on this process has no communicator for this group");
}

/// Calls to NCCL that do not come to an end, before there is anything that a stream could tell.
TEST(DeviceFailure, ACallThatNeverHappensIsNamed) {
  for (const Mistake mistake : {Mistake::kNeverSettles, Mistake::kCallBlocks}) {
    const Machine machine({}, mistake);
    const std::string text = failure_of(2, [](comm::World& world) {
      const auto all = world.communicator(everyone(world));
      std::vector<float> data(64, 1.F);
      all.all_reduce(on_device(data)).wait();
      world.resolve();
    });
    expect_part(text, "all_reduce sum of 64 f32 (number 0 of group x [0 1])");
    EXPECT_TRUE(machine.faults().empty());
  }
}

/// Nobody watches over communicators any more when they are destroyed.
TEST(DeviceFailure, CommunicatorsThatCannotBeDestroyedAreAborted) {
  const HangWatchdog watchdog(Seconds(60));
  const Machine machine({}, Mistake::kNeverFinalized);
  const Seconds before = now();
  on_threads(2, [](comm::World& world) {
    stand_in::use_device(world, {.farewell = Seconds(0.2)});
    std::vector<float> data(64, 1.F);
    world.communicator(everyone(world)).all_reduce(on_device(data)).wait();
    world.resolve();
  });
  EXPECT_GE(now() - before, Seconds(0.2));
  EXPECT_TRUE(machine.faults().empty());
}

TEST(DeviceFailure, AnotherOperationInItsPlaceIsNamed) {
  const Machine machine({});
  const std::string text = failure_of(2, [](comm::World& world) {
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    std::vector<float> wide(128, 1.F);
    if (world.rank() == 0) {
      all.all_reduce(on_device(data)).wait();
    } else {
      all.all_gather(on_device(data), on_device(wide)).wait();
    }
  });
  expect_part(text, "in its place");
  ASSERT_EQ(machine.faults().size(), 2U);
  expect_part(machine.faults()[0], "with other arguments");
}

/// With room for one kernel, ranks that issue two operations in different orders take it from each
/// other.
TEST(DeviceFailure, RanksThatAreAtDifferentOperationsAreNamed) {
  const Machine machine({.resident = 1});
  const std::string text = failure_of(2, [](comm::World& world) {
    const int lanes = world.reserve_lanes(2);
    const comm::Communicator a = world.communicator(everyone(world), lanes, 0);
    const comm::Communicator b = world.communicator(everyone(world), lanes + 1, 1);
    std::vector<float> in_a(10, 1.F);
    std::vector<float> in_b(20, 2.F);
    const bool first = world.rank() == 0;
    comm::Work one = (first ? a : b).all_reduce(on_device(first ? in_a : in_b));
    comm::Work two = (first ? b : a).all_reduce(on_device(first ? in_b : in_a));
    one.wait();
    two.wait();
  });
  const bool by_first = text.find("rank 1 on this process has issued it") != std::string::npos;
  expect_part(text, concat("all_reduce sum of ", by_first ? 10 : 20, " f32 (number 0"));
  expect_part(text,
              concat("has issued it, and it waits for all_reduce sum of ", by_first ? 20 : 10));
}

TEST(DeviceFailure, AReceiveWithoutASendNamesThePeer) {
  const Machine machine({});
  const std::string text = failure_of(3, [](comm::World& world) {
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    if (world.rank() == 0) all.recv(on_device(data), 2).wait();
    if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(6));
  });
  expect_part(text, "recv from 2 of 64 f32");
  expect_part(text, "rank 2 on this process");
}

TEST(DeviceFailure, AnExceptionEndsEveryDevice) {
  const Machine machine({});
  const std::string text = failure_of(3, [](comm::World& world) {
    const auto all = world.communicator(everyone(world));
    std::vector<float> data(64, 1.F);
    all.all_reduce(on_device(data)).wait();
    comm::Work work;
    // Rank 1 leaves, and the memory of all goes while kernels wait for it.
    if (world.rank() != 1) work = all.all_reduce(on_device(data));
    if (world.rank() == 1) throw IoError("the disk is full");
    work.wait();
  });
  expect_part(text, "the disk is full");
  EXPECT_TRUE(machine.faults().empty());
}

}  // namespace
}  // namespace fourfold::test
