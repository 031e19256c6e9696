// A rank that dies, stops, throws or hangs: what the user sees, when, and that nothing is left.
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

#include "tests/support/process.hpp"

namespace fourfold::test {
namespace {

/// Runs rank_program on four ranks; a word of its own marks its processes.
class Failure : public testing::Test {
 protected:
  const std::string mark_ =
      concat("mark-", getpid(), "-", testing::UnitTest::GetInstance()->current_test_info()->name());

  Outcome run(const std::vector<std::string>& what,
              const std::function<void(pid_t)>& meanwhile = nullptr) const {
    return run_with({RANK_PROGRAM, "--ranks", "4"}, what, meanwhile);
  }
  /// Without a launcher of ours.
  Outcome run_under_mpirun(const std::vector<std::string>& what) const {
    return run_with({"mpirun", "--oversubscribe", "-np", "4", RANK_PROGRAM}, what, nullptr);
  }
  Outcome run_with(std::vector<std::string> command, const std::vector<std::string>& what,
                   const std::function<void(pid_t)>& meanwhile) const {
    command.insert(command.end(), what.begin(), what.end());
    command.push_back(mark_);
    return run_program(
        command,
        {"TEST_DEADLINE=3", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
        meanwhile);
  }

  /// Whether all processes are gone within that time.
  bool gone(Seconds limit) const {
    for (const Seconds start = now(); now() - start < limit; usleep(20000)) {
      if (processes_with_argument(mark_).empty()) return true;
    }
    return false;
  }

  void wait_until_running() const {
    for (int i = 0; i < 500 && processes_with_argument(mark_).size() < 5; ++i) usleep(20000);
  }
};

TEST_F(Failure, NoneWhenAllIsWell) {
  const Outcome outcome = run({"ok", "-1"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Failure, KilledRankIsNamed) {
  const Outcome outcome = run({"kill", "2"});
  ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 2 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("was killed by signal 9 (Killed)"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_LT(outcome.seconds.value(), 15);
  EXPECT_TRUE(gone(Seconds(0.1)));
}

TEST_F(Failure, ExceptionIsReportedOnce) {
  const Outcome outcome = run({"throw", "2"});
  EXPECT_EQ(outcome.err, "rank_program: rank 2: the sky is falling\n");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_LT(outcome.seconds.value(), 15);
  EXPECT_TRUE(gone(Seconds(0.1)));
}

TEST_F(Failure, ErrorOfAllRanksIsReportedOnce) {
  const std::vector<std::pair<std::string, std::string>> errors = {
      {"all-throw", "the loss is not finite"},
      {"all-stack", "sizes do not match"},
      {"all-memory", "out of memory"}};
  for (const auto& [what, text] : errors) {
    const std::string line = concat("rank_program: rank 0: ", text, "\n");
    const Outcome ours = run({what});
    EXPECT_EQ(ours.err, line);
    EXPECT_EQ(ours.status, 1);
    EXPECT_TRUE(gone(Seconds(0.1)));
    // mpirun adds remarks of its own.
    const Outcome plain = run_under_mpirun({what});
    EXPECT_EQ(plain.err.find(line), plain.err.rfind("rank_program: rank")) << plain.err;
    EXPECT_NE(plain.err.find(line), std::string::npos) << plain.err;
    EXPECT_EQ(plain.status, 1);
    EXPECT_TRUE(gone(Seconds(2)));
  }
}

TEST_F(Failure, LowestOfTheRanksThatThrewFirstSpeaks) {
  const Outcome outcome = run({"all-later", "0"});
  EXPECT_EQ(outcome.err, "rank_program: rank 1: the loss is not finite\n");
  EXPECT_EQ(outcome.status, 1);
}

TEST_F(Failure, StackIsShownOnRequest) {
  const Outcome outcome =
      run_program({RANK_PROGRAM, "--ranks", "4", "all-stack"}, {"TEST_VERBOSE=1"});
  EXPECT_EQ(outcome.err.find("rank_program: rank 0: sizes do not match\n"), 0U) << outcome.err;
  EXPECT_NE(outcome.err.find("frame #1: second"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("frame #1: second"), outcome.err.rfind("frame #1: second"));
}

TEST_F(Failure, AnnouncedWorkMayTakeLongerThanTheDeadline) {
  for (const char* rank : {"0", "3"}) {
    const Outcome outcome = run({"work", rank, "9"});
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_GT(outcome.seconds.value(), 9);
  }
}

TEST_F(Failure, RankThatStopsAtAnnouncedWorkIsNamed) {
  for (const char* rank : {"0", "2"}) {
    const Outcome outcome = run({"stop-at-work", rank});
    ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find(concat("rank ", rank, " on ")), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(" does not answer"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(gone(Seconds(0.1)));
  }
}

TEST_F(Failure, RankThatIsKilledAtAnnouncedWorkIsNamed) {
  const Outcome outcome = run({"kill-at-work", "2"});
  ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 2 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("was killed by signal 9 (Killed)"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(gone(Seconds(0.1)));
}

TEST_F(Failure, StartThatHangsIsExplainedAndEnds) {
  const Outcome outcome = run_program({RANK_PROGRAM, "--ranks", "4", "absent", "2", mark_},
                                      {"TEST_DEADLINE=6", "TEST_START_TIME=2"});
  ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("the ranks have not found each other after 2.00 s"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("OMPI_MCA_btl_tcp_if_include="), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_GT(outcome.seconds.value(), 6);
  EXPECT_TRUE(gone(Seconds(0.1)));
}

TEST_F(Failure, StartMayTakeLongerThanTheDeadline) {
  const Outcome outcome = run({"late", "2", "6"});
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_GT(outcome.seconds.value(), 6);
}

TEST_F(Failure, StoppedRankIsNamedAfterTheDeadline) {
  const Outcome outcome = run({"stop", "2"});
  ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("all_reduce sum of 100000 f32 (number 100 of group "),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("rank 2 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" does not answer"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_GT(outcome.seconds.value(), 3);
  EXPECT_LT(outcome.seconds.value(), 20);
  EXPECT_TRUE(gone(Seconds(0.1)));
}

TEST_F(Failure, RankThatComputesForEverIsFoundThroughTheOthers) {
  const Outcome outcome = run({"spin", "3"});
  ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 3 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("outside of communication"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_LT(outcome.seconds.value(), 20);
  EXPECT_TRUE(gone(Seconds(0.1)));
}

TEST_F(Failure, StatusOfASilentExitIsTold) {
  const Outcome outcome = run({"exit", "1", "5"});
  EXPECT_EQ(outcome.err, "rank_program: rank 1 ended with status 5\n");
  EXPECT_EQ(outcome.status, 5);
  EXPECT_TRUE(gone(Seconds(0.1)));
}

TEST_F(Failure, BadInputIsReportedOnceWithStatusTwo) {
  const Outcome outcome = run({"bad-input"});
  EXPECT_EQ(outcome.err, "rank_program: key 'x' must be at least 1\n");
  EXPECT_EQ(outcome.status, 2);
}

TEST_F(Failure, SignalIsPassedOn) {
  const Outcome outcome = run({"spin", "3"}, [&](pid_t launcher) {
    wait_until_running();
    kill(launcher, SIGTERM);
  });
  EXPECT_EQ(outcome.status, 128 + SIGTERM);
  EXPECT_LT(outcome.seconds.value(), 15);
  EXPECT_TRUE(gone(Seconds(0.1)));
}

TEST_F(Failure, IgnoredSignalsStayIgnored) {
  const Outcome outcome = run_program({"nohup", RANK_PROGRAM, "--ranks", "4", "ok", "-1", mark_},
                                      {}, [&](pid_t launcher) {
                                        wait_until_running();
                                        kill(launcher, SIGHUP);
                                      });
  EXPECT_EQ(outcome.status, 0) << outcome.err;
}

TEST_F(Failure, ChildrenOfOthersAreSpared) {
  const Outcome outcome =
      run_program({"sh", "-c", concat("sleep 1.625 & exec ", RANK_PROGRAM, " --ranks 2 print")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(processes_with_argument("1.625").size(), 1U);
}

TEST_F(Failure, KilledLauncherLeavesNobody) {
  const Outcome outcome = run({"spin", "3"}, [&](pid_t launcher) {
    wait_until_running();
    kill(launcher, SIGKILL);
  });
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_TRUE(gone(Seconds(15)));
}

TEST(Launcher, RefusesBeforeItStarts) {
  const auto refused = [](const std::vector<std::string>& environment, const char* ranks) {
    return run_program({RANK_PROGRAM, "--ranks", ranks, "ok"}, environment);
  };
  for (const char* ranks : {"0", "-3", "many", "5000"}) {
    const Outcome outcome = refused({}, ranks);
    EXPECT_EQ(outcome.status, 2) << ranks;
    EXPECT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  }
  const Outcome no_mpirun = refused({"PATH=/nowhere"}, "2");
  EXPECT_EQ(no_mpirun.status, 2);
  EXPECT_NE(no_mpirun.err.find("openmpi-bin"), std::string::npos);
  const Outcome nested = refused({"OMPI_COMM_WORLD_SIZE=4"}, "2");
  EXPECT_EQ(nested.status, 2);
  EXPECT_NE(nested.err.find("leave it out under mpirun"), std::string::npos);
}

TEST(Launcher, GivesEachRankItsCoresAndThreads) {
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (cores < 2) GTEST_SKIP() << "needs two cores";
  const Outcome two = run_program({RANK_PROGRAM, "--ranks", "2", "print"});
  EXPECT_EQ(two.status, 0);
  ASSERT_EQ(lines(two.out).size(), 2U) << two.out;
  EXPECT_EQ(two.out.find("cores any"), std::string::npos) << two.out;
  EXPECT_NE(two.out.find(concat("with ", cores / 2, " threads")), std::string::npos) << two.out;
  const std::string many = std::to_string(2 * cores);
  const Outcome crowded = run_program({RANK_PROGRAM, "--ranks", many, "print"});
  EXPECT_EQ(crowded.status, 0);
  EXPECT_NE(crowded.out.find("cores any with 1 threads"), std::string::npos) << crowded.out;
}

}  // namespace
}  // namespace fourfold::test
