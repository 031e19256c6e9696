// Mistakes that a backend for devices could make, each made on purpose: all of them are found. So
// that tests over the stand-in find nothing means that the backend does not make them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/comm/thread/thread.hpp"

#include "tests/support/ranks.hpp"
#include "tests/support/stand_in.hpp"
#include "tests/support/watchdog.hpp"

#ifndef __SANITIZE_THREAD__  // which finds most of these mistakes, too, and fails

namespace fourfold::test {
namespace {

using comm::nccl::Comm;
using comm::nccl::kSuccess;
using comm::nccl::Stream;
using comm::nccl::UniqueId;
using stand_in::api;
using stand_in::Machine;
using stand_in::Mistake;

constexpr int kRanks = 3;
constexpr std::int64_t kCount = 60;

class Buffer {
 public:
  explicit Buffer(std::int64_t count) : values_(static_cast<std::size_t>(count)) {}
  comm::View view() {
    comm::View view = comm::view(values_);
    view.memory = comm::Memory::kDevice;
    return view;
  }
  stand_in::Range range(bool write) { return {values_.data(), view().bytes(), write}; }
  std::int64_t count() const { return static_cast<std::int64_t>(values_.size()); }
  double& operator[](std::int64_t i) { return values_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<double> values_;
};

/// The memory of a rank, which is there until nothing runs any more.
struct Data {
  Buffer x{kCount}, got{kCount}, other{kCount}, part{kCount / kRanks}, all{kCount};
  int wrong = 0;  ///< results
};

/// What a rank computes and communicates: two lanes at once, and a ring of messages whose receives
/// are under way before anything is sent.
void train(comm::World& world, Data& data, bool reuse_early) {
  api().set_device(world.rank());
  const Stream compute = stand_in::make_compute_stream();
  comm::nccl::Options options;
  options.compute_stream = [=] { return compute; };
  stand_in::use_device(world, options);
  const int lanes = world.reserve_lanes(2);
  const auto a = world.communicator(everyone(world), lanes, 0);
  const auto b = world.communicator(everyone(world), lanes + 1, 1);
  const int rank = world.rank();
  const auto fill = [&](const char* name, Buffer& buffer, double value) {
    stand_in::launch(compute, name, {buffer.range(true)}, [&buffer, value] {
      for (std::int64_t i = 0; i < buffer.count(); ++i) buffer[i] = value;
    });
  };
  for (int round = 0; round < 4; ++round) {
    comm::Work arriving = a.recv(data.got.view(), (rank + kRanks - 1) % kRanks);
    fill("produce", data.x, rank + round);
    comm::Work sum = a.all_reduce(data.x.view());
    fill("fill", data.other, 1);
    comm::Work scattered = b.reduce_scatter(data.other.view(), data.part.view());
    if (reuse_early) fill("reuse", data.other, 7);
    sum.wait();
    scattered.wait();
    comm::Work gathered = b.all_gather(data.part.view(), data.all.view());
    comm::Work sent = a.send(data.x.view(), (rank + 1) % kRanks);
    arriving.wait();
    gathered.wait();
    stand_in::launch(compute, "consume",
                     {data.x.range(false), data.got.range(false), data.all.range(false)},
                     [&data, round] {
                       const double sum_of_all = kRanks * round + kRanks * (kRanks - 1) / 2;
                       for (std::int64_t i = 0; i < kCount; ++i) {
                         const bool right = data.x[i] == sum_of_all && data.got[i] == sum_of_all &&
                                            data.all[i] == kRanks;
                         data.wrong += right ? 0 : 1;
                       }
                     });
    sent.wait();
  }
  world.resolve();
}

struct Outcome {
  std::vector<std::string> faults;
  std::string failure;  ///< what the ranks say
  bool found(const std::string& part) const {
    return std::ranges::any_of(
        faults, [&](const std::string& fault) { return fault.find(part) != std::string::npos; });
  }
};

Outcome outcome_of(Mistake mistake, unsigned seed, bool reuse_early = false) {
  const HangWatchdog watchdog(Seconds(60));
  Outcome outcome;
  std::vector<Data> data(kRanks);
  // Where nothing is wrong, a busy machine must not look like a hang.
  const bool right = mistake == Mistake::kNone;
  const Machine machine({.seed = seed, .deadline = Seconds(right ? 40 : 3)}, mistake);
  try {
    comm::thread::run(
        kRanks,
        [&](comm::World& world) {
          Data& own = data[static_cast<std::size_t>(world.rank())];
          train(world, own, reuse_early);
          expect_on_all_ranks(world, own.wrong == 0, "wrong results");
        },
        {.deadline = Seconds(right ? 30 : 1), .answer_time = Seconds(right ? 10 : 0.5)});
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  outcome.faults = machine.faults();
  return outcome;
}

constexpr unsigned kSeeds = 3;

TEST(DeviceMistakes, NoneIsFoundWhereNoneIsMade) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const Outcome outcome = outcome_of(Mistake::kNone, seed);
    EXPECT_EQ(outcome.faults, std::vector<std::string>());
    EXPECT_EQ(outcome.failure, "");
  }
}

TEST(DeviceMistakes, ALaneThatDoesNotWaitForCompute) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_TRUE(outcome_of(Mistake::kLaneIgnoresCompute, seed).found("what produce writes"));
  }
}

TEST(DeviceMistakes, ComputeThatDoesNotWaitForALane) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_TRUE(outcome_of(Mistake::kComputeIgnoresLane, seed).found("consume reads what"));
  }
}

TEST(DeviceMistakes, MemoryThatIsUsedAgainBeforeTheWait) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_TRUE(outcome_of(Mistake::kNone, seed, true).found("reuse writes what reduce_scatter"));
  }
}

TEST(DeviceMistakes, AWaitForTheWrongEvent) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_TRUE(outcome_of(Mistake::kWrongEvent, seed).found("unordered"));
  }
}

TEST(DeviceMistakes, AnEventThatIsRecordedBeforeTheOperation) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_TRUE(outcome_of(Mistake::kEarlyRecord, seed).found("unordered"));
  }
}

TEST(DeviceMistakes, ARankWithAnotherCount) {
  const Outcome outcome = outcome_of(Mistake::kOtherCount, 1);
  EXPECT_TRUE(outcome.found("with other arguments"));
  EXPECT_NE(outcome.failure, "");
}

TEST(DeviceMistakes, AGroupThatIsNotLaunched) {
  const Outcome outcome = outcome_of(Mistake::kNoGroupEnd, 1);
  EXPECT_NE(outcome.failure, "");
}

/// Rank 1 never enters the second operation, and the kernels of rank 0 do not hear that all is
/// over.
TEST(DeviceMistakes, AnAbortThatDoesNotReachACommunicator) {
  for (const Mistake mistake : {Mistake::kNone, Mistake::kAbortMisses}) {
    const HangWatchdog watchdog(Seconds(60));
    std::vector<Data> memory(kRanks);
    const Machine machine({.deadline = Seconds(12)}, mistake);
    const auto body = [&](comm::World& world) {
      stand_in::use_device(world);
      const auto all = world.communicator(everyone(world));
      Buffer& data = memory[static_cast<std::size_t>(world.rank())].x;
      all.all_reduce(data.view()).wait();
      if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(6));
      all.all_reduce(data.view()).wait();
    };
    EXPECT_THROW(
        comm::thread::run(kRanks, body, {.deadline = Seconds(2), .answer_time = Seconds(2)}),
        CommError);
    EXPECT_EQ(machine.faults().empty(), mistake == Mistake::kNone);
  }
}

// --- mistakes in which communicators there are; on the library itself, since Communicators leaves
// no room for them

/// Runs `body` for two ranks with a device each.
void on_two_devices(const std::function<void(int)>& body) {
  std::vector<std::jthread> ranks;
  for (const int rank : {0, 1}) {
    ranks.emplace_back([&body, rank] {
      api().set_device(rank);
      body(rank);
    });
  }
}

Comm made(const UniqueId& id, int rank) {
  Comm comm = nullptr;
  api().comm_create(&comm, 2, id, rank, 0);
  return comm;
}

/// Whether the other rank joins.
bool joins(Comm comm) {
  int state = -1;
  for (int look = 0; look < 300 && state != kSuccess; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    api().comm_state(comm, &state);
  }
  return state == kSuccess;
}

TEST(DeviceMistakes, CommunicatorsInAnotherOrder) {
  const Machine machine({});
  std::array<UniqueId, 2> ids;
  for (UniqueId& id : ids) api().get_unique_id(&id);
  std::atomic<int> stuck = 0;
  on_two_devices([&](int rank) {
    const Comm first = made(ids[static_cast<std::size_t>(rank)], rank);
    if (!joins(first)) ++stuck;
  });
  EXPECT_EQ(stuck, 2);
}

TEST(DeviceMistakes, OneCommunicatorForBothDirections) {
  const Machine machine({.deadline = Seconds(1)});
  UniqueId id{};
  api().get_unique_id(&id);
  on_two_devices([&](int rank) {
    const Comm comm = made(id, rank);
    std::vector<Stream> streams(2);
    for (Stream& stream : streams) api().stream_create(&stream);
    std::vector<float> in(10), out(10);
    using comm::nccl::kFloat32;
    api().recv(in.data(), 10, kFloat32, 1 - rank, comm, streams[0]);
    api().send(out.data(), 10, kFloat32, 1 - rank, comm, streams[1]);
    for (const Stream stream : streams) {
      api().stream_synchronize(stream);
      api().stream_destroy(stream);
    }
  });
  ASSERT_EQ(machine.faults().size(), 1U);
  EXPECT_EQ(machine.faults()[0].substr(0, 5), "stuck");
}

}  // namespace
}  // namespace fourfold::test

#endif
