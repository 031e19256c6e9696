// Failures among ranks as threads: every rank learns of them, and the line says who is to blame.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/thread/thread.hpp"

#include "tests/support/ranks.hpp"
#include "tests/support/watchdog.hpp"

namespace fourfold::test {
namespace {

using comm::view;

const comm::Options kShort{.deadline = Seconds(0.5), .answer_time = Seconds(2)};

/// What `run` throws when `body` fails, as text.
std::string failure_of(int ranks, const Body& body, const comm::Options& options = kShort) {
  const HangWatchdog watchdog(Seconds(60));
  try {
    comm::thread::run(ranks, body, options);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ThreadFailure, ThrowingRankEndsTheOthers) {
  std::atomic<int> told = 0;
  const std::string text = failure_of(4, [&](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    std::vector<float> data(1000, 1.F);
    for (int i = 0;; ++i) {
      if (i == 10 && world.rank() == 2) throw IoError("the disk is full");
      try {
        comm.all_reduce(view(data)).wait();
      } catch (const CommError& error) {
        told += contains(error.what(), "rank 2 failed") ? 1 : 0;
        throw;
      }
    }
  });
  EXPECT_EQ(text, "the disk is full");
  EXPECT_EQ(told, 3);
}

TEST(ThreadFailure, ExceptionWithWorkUnderWay) {
  const std::string text = failure_of(3, [&](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    std::vector<float> data(300000, 1.F);
    auto work = comm.all_reduce(view(data));
    if (world.rank() == 1) throw IoError("in the middle");
    work.wait();
    comm.barrier().wait();
  });
  EXPECT_EQ(text, "in the middle");
}

TEST(ThreadFailure, RankThatIsBehindIsNamed) {
  const std::string text = failure_of(4, [](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    if (world.rank() == 3) std::this_thread::sleep_for(std::chrono::seconds(3));
    comm.barrier().wait();
  });
  EXPECT_TRUE(contains(text, "barrier (number 0 of group x [0 1 2 3])")) << text;
  EXPECT_TRUE(contains(text, "rank 3 on this process is behind")) << text;
  EXPECT_TRUE(contains(text, "outside of communication")) << text;
}

TEST(ThreadFailure, SendsAndReceivesDoNotMakeOthersLookBehind) {
  const std::string text = failure_of(3, [](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    std::vector<float> data(10, 1.F);
    for (int i = 0; i < 10; ++i) {
      if (world.rank() == 0) comm.send(view(data), 1).wait();
      if (world.rank() == 1) comm.recv(view(data), 0).wait();
    }
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
    comm.barrier().wait();
  });
  EXPECT_TRUE(contains(text, "barrier (number 0 of group x [0 1 2])")) << text;
  EXPECT_TRUE(contains(text, "rank 1 on this process is behind")) << text;
  EXPECT_FALSE(contains(text, "rank 2 on this process is behind")) << text;
  EXPECT_FALSE(contains(text, "rank 0 on this process is behind")) << text;
}

TEST(ThreadFailure, DifferentOrdersAreACircle) {
  const std::string text = failure_of(2, [](comm::World& world) {
    const auto a = world.communicator(everyone(world));
    const auto b = world.communicator(everyone(world));
    std::vector<float> data(10, 1.F);
    const bool first = world.rank() == 0;
    (first ? a : b).all_reduce(view(data)).wait();
    (first ? b : a).all_reduce(view(data)).wait();
  });
  EXPECT_TRUE(contains(text, "is behind")) << text;
  EXPECT_TRUE(contains(text, "the waits form a circle")) << text;
}

TEST(ThreadFailure, ARankWithoutTheCommunicatorIsNamed) {
  const std::string text = failure_of(3, [](comm::World& world) {
    const int first = world.reserve_lanes(4);
    std::vector<float> data(10, 1.F);
    if (world.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(3));
    } else {
      world.communicator(everyone(world), first + 2).all_reduce(view(data)).wait();
    }
  });
  EXPECT_TRUE(contains(text, "all_reduce sum of 10 f32 (number 0 of group x [0 1 2])")) << text;
  EXPECT_TRUE(contains(text,
                       "rank 1 on this process has no communicator for this group and "
                       "purpose: it is outside of communication"))
      << text;
  EXPECT_FALSE(contains(text, "rank 2 on this process has no")) << text;
}

TEST(ThreadFailure, APeerWithoutTheCommunicatorIsNamed) {
  const std::string text = failure_of(3, [](comm::World& world) {
    const int first = world.reserve_lanes(1);
    std::vector<float> data(100000, 1.F);
    if (world.rank() == 0) world.communicator(everyone(world), first).recv(view(data), 2).wait();
    std::this_thread::sleep_for(std::chrono::seconds(3));
  });
  EXPECT_TRUE(contains(text, "rank 2 on this process has no communicator")) << text;
  EXPECT_FALSE(contains(text, "rank 1 on this process has no communicator")) << text;
}

TEST(ThreadFailure, LanesAreMadeInAnyOrder) {
  on_threads(4, [](comm::World& world) {
    const int first = world.reserve_lanes(3);
    const auto later = world.communicator(everyone(world));
    std::vector<comm::Communicator> comms;
    for (int i = 0; i < 3; ++i) {
      const int number = first + (world.rank() % 2 == 0 ? i : 2 - i);
      comms.push_back(world.communicator(everyone(world), number));
    }
    for (int i = 0; i < 3; ++i) {
      std::vector<double> data = {1.0 + i};
      comms[static_cast<std::size_t>(world.rank() % 2 == 0 ? i : 2 - i)]
          .all_reduce(view(data))
          .wait();
      expect_on_all_ranks(world, data[0] == 4 * (1.0 + i), "a sum of another lane");
    }
    later.barrier().wait();
    EXPECT_THROW(world.communicator(everyone(world), first), InvariantError);
    EXPECT_THROW(world.communicator(everyone(world), first + 100), InvariantError);
  });
}

TEST(ThreadFailure, DifferentSizesAreFound) {
  const std::string text = failure_of(2, [](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    std::vector<float> data(world.rank() == 0 ? 10 : 20, 1.F);
    comm.all_reduce(view(data)).wait();
  });
  EXPECT_TRUE(contains(text, "they issue different operations")) << text;
}

TEST(ThreadFailure, AnotherOperationInItsPlaceIsFound) {
  const std::string text = failure_of(4, [](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    std::vector<float> data(10, 1.F);
    if (world.rank() == 1) {
      comm.broadcast(view(data), 3).wait();
    } else {
      comm.all_reduce(view(data)).wait();
    }
  });
  // Whichever side notices first names the other one's operation.
  EXPECT_TRUE(contains(text, "in its place")) << text;
  EXPECT_TRUE(contains(text, "all_reduce sum of 10 f32")) << text;
  EXPECT_TRUE(contains(text, "broadcast from 3 of 10 f32")) << text;
}

TEST(ThreadFailure, DeadlineIsShorterThanThatOfProcesses) {
  const auto expect = [](Seconds deadline) {
    return [=](const comm::World& world) { EXPECT_EQ(world.deadline(), deadline); };
  };
  comm::thread::run(2, expect(Seconds(30)));
  comm::thread::run(2, expect(Seconds(7)), {.deadline = Seconds(7)});
  expect(Seconds(600))(comm::self::open());
}

TEST(ThreadFailure, DeadlineFollowsFromUsualWaits) {
  comm::World world = comm::self::open();
  world.suspect_after(Seconds(20));
  EXPECT_EQ(world.deadline(), Seconds(600));
  world.suspect_after(Seconds(0.5));
  EXPECT_EQ(world.deadline(), Seconds(120)) << "not too short for a disk that is slow once";
  world.suspect_after(Seconds(60));
  EXPECT_EQ(world.deadline(), Seconds(1800));
  comm::World given = comm::self::open({.deadline = Seconds(7)});
  given.suspect_after(Seconds(20));
  EXPECT_EQ(given.deadline(), Seconds(7)) << "the user's own stays";
}

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

TEST(ThreadFailure, AnnouncedWorkMayTakeLongerThanTheDeadline) {
  const auto body = [](comm::World& world, bool announced) {
    const auto comm = world.communicator(everyone(world));
    std::vector<float> data(10, 1.F);
    if (world.rank() == 0) {
      std::optional<comm::LongWork> long_work;
      if (announced) long_work.emplace(world.long_work("writing the model"));
      sleep(2);
      for (int rank = 1; rank < 4; ++rank) comm.recv(view(data), rank).wait();
    } else {
      comm.send(view(data), 0).wait();
    }
    comm.barrier().wait();
  };
  EXPECT_EQ(failure_of(4, [&](comm::World& world) { body(world, true); }), "none");
  const std::string text = failure_of(4, [&](comm::World& world) { body(world, false); });
  EXPECT_TRUE(contains(text, "rank 0 on this process")) << text;
}

TEST(ThreadFailure, WaitsAfterAnnouncedWorkHaveTheDeadlineAgain) {
  const std::string text = failure_of(3, [](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    if (world.rank() == 2) {
      {
        const comm::LongWork long_work = world.long_work("preparing the data");
        sleep(1);
      }
      sleep(5);
    }
    comm.barrier().wait();
  });
  EXPECT_TRUE(contains(text, "rank 2 on this process is behind")) << text;
  EXPECT_TRUE(contains(text, "outside of communication")) << text;
}

// Every rank passes its deadline at once. The bound of docs/communication.md: each of the others
// claims the right to ask and is told who has it, and one of them asks everybody.
TEST(ThreadFailure, AHangCostsFourMessagesARank) {
  constexpr int kRanks = 64;
  std::atomic<std::int64_t> messages = 0;
  const comm::Options options{.deadline = Seconds(1), .answer_time = Seconds(20)};
  const std::string text = failure_of(
      kRanks,
      [&](comm::World& world) {
        const auto comm = world.communicator(everyone(world));
        try {
          if (world.rank() == 5) {
            while (messages == 0) sleep(0.05);  // until the others have ended
            sleep(0.5);
          }
          comm.barrier().wait();
        } catch (const CommError&) {
          messages += world.control_messages();
          throw;
        }
      },
      options);
  EXPECT_TRUE(contains(text, "rank 5 on this process is behind")) << text;
  EXPECT_TRUE(contains(text, "group x [0 1 2 ... 63], 64 ranks)")) << text;
  EXPECT_LE(messages, 4 * (kRanks - 1));
  EXPECT_GE(messages, 2 * (kRanks - 1)) << "one rank asks all";
}

/// Stops a rank at the end of an operation: it answers nobody, until it may go on.
class Stop final : public comm::Observer {
 public:
  void ended(const comm::Observed&, const comm::Run&) override {
    for (const Seconds begin = now(); armed && !may_go_on && now() - begin < Seconds(40);) {
      sleep(0.01);
    }
  }
  std::atomic<bool> armed{false};
  std::atomic<bool> may_go_on{false};
};

/// Rank 1 asks, and is told that the others are at work. If it stops soon after that, others find
/// it as if it had never asked.
TEST(ThreadFailure, RankThatStopsAfterItHasAskedIsNamedSoon) {
  Stop stop;
  std::atomic<bool> asked = false;
  std::atomic<double> took = 0;
  const comm::Options options{.deadline = Seconds(1), .answer_time = Seconds(1)};
  const std::string text = failure_of(
      3,
      [&](comm::World& world) {
        const auto comm = world.communicator(everyone(world));
        std::vector<float> data(10, 1.F);
        if (world.rank() != 1) {
          const comm::LongWork long_work = world.long_work("preparing the data");
          sleep(2);
        }
        comm.barrier().wait();
        if (world.rank() == 1) {
          asked = world.control_messages() > 0;
          const comm::Observation observation = world.observe(stop);
          stop.armed = true;
          comm.send(view(data), 0).wait();
          comm.barrier().wait();
          return;
        }
        if (world.rank() == 0) comm.recv(view(data), 1).wait();
        const Seconds begin = now();
        try {
          comm.barrier().wait();
        } catch (const CommError&) {
          if (world.rank() == 0) took = (now() - begin).value();
          stop.may_go_on = true;
          throw;
        }
      },
      options);
  EXPECT_TRUE(asked);
  EXPECT_TRUE(contains(text, "rank 1 on this process does not answer")) << text;
  EXPECT_GT(took, 1) << "not before the deadline";
  EXPECT_LT(took, 10) << "and not when the right of rank 1 would have lapsed";
}

TEST(ThreadFailure, DroppedWorkIsWaitedFor) {
  on_threads(4, [](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    std::vector<std::int64_t> data(1000, 1);
    { const auto dropped = comm.all_reduce(view(data)); }
    expect_on_all_ranks(world, data[999] == 4, "the sum is not there");
  });
}

TEST(ThreadFailure, OwnersLiveUntilTheOperationIsDone) {
  on_threads(2, [](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    const auto owner = std::make_shared<std::vector<float>>(100000, 1.F);
    comm::View data = view(*owner);
    data.owner = owner;
    auto work = comm.all_reduce(std::move(data));
    work.wait();
    expect_on_all_ranks(world, owner.use_count() == 1, "the buffer is still held");
  });
}

TEST(Communicator, RefusesWhatCannotBe) {
  auto world = comm::self::open();
  const auto comm = world.communicator(everyone(world));
  std::vector<float> f32(4);
  std::vector<double> f64(4);
  EXPECT_THROW(comm.broadcast(view(f32), 1), InvariantError);
  EXPECT_THROW(comm.send(view(f32), 0), InvariantError);
  EXPECT_THROW(comm.all_gather(view(f32), view(f64)), InvariantError);
  EXPECT_THROW(comm.all_gather(view(f32), view(std::span(f32).first(3))), InvariantError);
  EXPECT_THROW(comm.all_reduce(std::vector<comm::View>{view(f32), view(f64)}), InvariantError);
  EXPECT_THROW(comm.all_reduce(std::vector<comm::View>{}), InvariantError);
  EXPECT_THROW(world.communicator({grid::Axis::kX, {0, 1}, 0}), InvariantError);
  EXPECT_THROW(world.communicator({grid::Axis::kX, {1, 0}, 0}), InvariantError);
}

TEST(HangWatchdogDeathTest, PrintsWhereEachRankHangs) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "this sanitizer holds signals back";
#endif
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const HangWatchdog watchdog(Seconds(1));
        comm::thread::run(2, [](comm::World& world) {
          const WatchedThread watched;
          if (world.rank() == 1) {
            for (volatile bool forever = true; forever;) {
            }
          }
          world.communicator(everyone(world)).barrier().wait();
        });
      },
      testing::ExitedWithCode(70), testing::ContainsRegex("rank 0 hangs here(.|\n)*Engine"));
}

}  // namespace
}  // namespace fourfold::test
