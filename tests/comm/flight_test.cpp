// The log that survives a rank, and what it says.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "fourfold/comm/flight_log.hpp"
#include "fourfold/comm/flight_recorder.hpp"
#include "fourfold/comm/layer_scope.hpp"

#include "tests/formats/damage.hpp"
#include "tests/formats/scratch_folder.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using comm::FlightLog;
using comm::FlightOperation;

class Flight : public ScratchFolder {};

TEST_F(Flight, KeepsTheNewestOperations) {
  constexpr std::int64_t kMany = comm::FlightRecorder::kKept + 10;
  on_threads(2, [&](comm::World& world) {
    const comm::Communicator all = world.communicator(everyone(world));
    comm::FlightRecorder recorder(world, path(comm::flight_file(world.rank())));
    recorder.begin_step(7);
    const comm::LayerScope scope("h.3.attn");
    for (std::int64_t i = 0; i < kMany; ++i) {
      double value = 1;
      all.all_reduce({&value, 1, schedule::DType::kF64}).wait();
    }
    const comm::LongWork validating = world.long_work("validating");
    { const comm::LongWork inner = world.long_work("writing"); }
    const FlightLog log = comm::read_flight_log(path(comm::flight_file(world.rank())));
    const auto expect = [&](bool holds, const char* what) {
      expect_on_all_ranks(world, holds, what);
    };
    expect(log.rank == world.rank() && log.ranks == 2, "rank");
    expect(log.step == 7 && log.doing == "validating", "step and work");
    expect(log.waiting_for == -1, "nothing is awaited");
    expect(!log.left, "it goes on");
    expect(log.lanes.size() == 1 && log.lanes[0].members == std::vector{0, 1}, "lane");
    expect(static_cast<std::int64_t>(log.operations.size()) == comm::FlightRecorder::kKept,
           "count");
    const FlightOperation& last = log.operations.back();
    expect(last.number == kMany - 1 && last.in_lane == kMany - 1, "numbers");
    expect(log.operations.front().number == 10, "the oldest are gone");
    expect(last.op == schedule::Op::kAllReduce && last.dtype == schedule::DType::kF64 &&
               last.count == 1 && last.layer == "h.3.attn",
           "operation");
    expect(last.issued > 1e9 && last.waited >= last.issued && last.ended >= last.issued &&
               log.seen >= last.ended - 1,
           "times");
  });
}

TEST_F(Flight, ShowsWhatARankWaitsFor) {
  on_threads(2, [&](comm::World& world) {
    const comm::Communicator all = world.communicator(everyone(world));
    const std::filesystem::path file = path(comm::flight_file(world.rank()));
    comm::FlightRecorder recorder(world, file);
    double value = 1;
    comm::Work work = all.all_reduce({&value, 1, schedule::DType::kF64});
    const FlightLog before = comm::read_flight_log(file);
    expect_on_all_ranks(world, before.operations.at(0).waited == 0, "it is not awaited yet");
    recorder.awaited(before.operations.at(0).number);
    const FlightLog during = comm::read_flight_log(file);
    work.wait();
    expect_on_all_ranks(world, during.waiting_for == during.operations.at(0).number, "it waits");
    expect_on_all_ranks(world, comm::read_flight_log(file).waiting_for == -1, "and has waited");
  });
}

TEST_F(Flight, ReadsNothingElse) {
  EXPECT_SAYS(message_of<ConfigError>([&] { comm::read_flight_log(path("none")); }),
              "none is not the log of a rank");
  on_threads(1,
             [&](comm::World& world) { const comm::FlightRecorder recorder(world, path("log")); });
  EXPECT_TRUE(comm::read_flight_log(path("log")).left);
  const std::string bytes = bytes_of(path("log"));
  damage_often(bytes, 300, 3,
               [&](const std::string& bad) { comm::read_flight_log(put("bad", bad)); });
}

}  // namespace
}  // namespace fourfold::test
