// Training that is slow to save, or that fails on every rank: what the user sees of it.
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

/// Training on four ranks whose model is saved to a disk that takes its time, with a deadline of
/// two seconds, or without one.
class SlowDisk : public testing::Test {
 protected:
  Outcome train(const char* seconds, const std::function<void(pid_t)>& meanwhile = nullptr,
                const std::vector<std::string>& deadline = {"--deadline", "2"}) const {
    std::vector<std::string> command = {FOURFOLD_PROGRAM};
    // Large enough that the disk is needed before the last tensor has come to rank 0.
    std::vector<std::string> settings = {"--grid", "x=2,data=2", "--set", "model.width=256"};
    settings.insert(settings.end(), deadline.begin(), deadline.end());
    for (const std::string& word : work_.train_arguments("run", settings)) command.push_back(word);
    return run_program(command, {"LD_PRELOAD=" SLOW_DISK, concat("SLOW_DISK_SECONDS=", seconds)},
                       meanwhile);
  }

  /// The process of that rank, once the model is being written.
  pid_t rank_while_saving(int rank) const {
    for (int i = 0; i < 600; ++i, usleep(100000)) {
      if (!writing()) continue;
      for (const pid_t process : processes_with_argument(work_.path("run"))) {
        std::ifstream file(concat("/proc/", process, "/environ"), std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        const std::string sign = concat("OMPI_COMM_WORLD_RANK=", rank, '\0');
        if (text.find(sign) != std::string::npos) return process;
      }
    }
    return -1;
  }

  const Workspace work_;

 private:
  bool writing() const {
    if (!work_.has("run")) return false;
    for (const auto& entry : std::filesystem::directory_iterator(work_.path("run"))) {
      if (entry.path().extension() == ".part") return true;
    }
    return false;
  }
};

TEST_F(SlowDisk, SaveMayTakeLongerThanTheDeadline) {
  const Outcome outcome = train("8");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(work_.has("run/model.safetensors"));
  EXPECT_TRUE(work_.has("run/config.json"));
}

TEST_F(SlowDisk, RankThatStopsDuringTheSaveIsNamed) {
  for (const int rank : {0, 3}) {
    pid_t stopped = -1;
    const Outcome outcome = train("500", [&](pid_t) {
      stopped = rank_while_saving(rank);
      if (stopped > 0) kill(stopped, SIGSTOP);
    });
    ASSERT_GT(stopped, 0);
    ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find(concat("rank ", rank, " on ")), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(" does not answer"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.status, 1);
    EXPECT_LT(outcome.seconds.value(), 200);
    EXPECT_TRUE(processes_with_argument(work_.path("run")).empty());
    std::filesystem::remove_all(work_.path("run"));
  }
}

/// The others have asked it, and know that it writes. They do not wait for their deadline, which is
/// two minutes then, before they ask again.
TEST_F(SlowDisk, RankThatStopsAfterItHasAnsweredIsNamedSoon) {
  Seconds stopped;
  const Outcome outcome = train("500",
                                [&](pid_t) {
                                  const pid_t writer = rank_while_saving(0);
                                  ASSERT_GT(writer, 0);
                                  usleep(4000000);  // longer than a step: they have asked
                                  kill(writer, SIGSTOP);
                                  stopped = now();
                                },
                                {});
  const Seconds took = now() - stopped;
  ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 0 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" does not answer"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_LT(took.value(), 60);
  EXPECT_TRUE(processes_with_argument(work_.path("run")).empty());
}

TEST_F(SlowDisk, RankThatIsKilledDuringTheSaveIsNamed) {
  const Outcome outcome = train("500", [&](pid_t) {
    const pid_t rank = rank_while_saving(3);
    if (rank > 0) kill(rank, SIGKILL);
  });
  ASSERT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 3 on "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("was killed by signal 9 (Killed)"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
}

/// Errors that all four ranks have.
class FailureOfAll : public testing::Test {
 protected:
  /// Training in a process, and its children, that may have 16 GB of addresses.
  Outcome train(const std::vector<std::string>& launcher, const std::string& name,
                const std::vector<std::string>& more) const {
    std::vector<std::string> command = {"sh", "-c", "ulimit -v 16000000 && exec \"$@\"", "sh"};
    command.insert(command.end(), launcher.begin(), launcher.end());
    command.push_back(FOURFOLD_PROGRAM);
    for (const std::string& word : work_.train_arguments(name, more)) command.push_back(word);
    return run_program(command, {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  }

  /// Under --ranks there is nothing but `line` on the standard error; under mpirun, which adds its
  /// own remarks, it is there once.
  void expect_line(std::vector<std::string> more, const std::string& line, int status = 1) const {
    const Outcome plain = train({"mpirun", "--oversubscribe", "-np", "4"}, "plain", more);
    EXPECT_NE(plain.err.find(line), std::string::npos) << plain.err;
    EXPECT_EQ(plain.err.find("fourfold: "), plain.err.rfind("fourfold: ")) << plain.err;
    EXPECT_EQ(plain.err.find("frame #"), std::string::npos) << plain.err;
    EXPECT_EQ(plain.status, status);
    more.insert(more.end(), {"--ranks", "4"});
    const Outcome ours = train({}, "ours", more);
    ASSERT_EQ(lines(ours.err).size(), 1U) << ours.err;
    EXPECT_NE(ours.err.find(line), std::string::npos) << ours.err;
    EXPECT_EQ(ours.status, status);
  }

  const Workspace work_;
};

TEST_F(FailureOfAll, LossThatIsNotFinite) {
  expect_line({"--set", "optim.lr=1e300", "--set", "optim.clip=0"}, ": step 2: ");
}

TEST_F(FailureOfAll, BadInput) {
  expect_line({"--set", "model.width=0"}, "model.width", 2);
  expect_line({"--no-such-option"}, "--no-such-option", 2);
}

TEST_F(FailureOfAll, MemoryThatRanOut) {
  std::vector<std::string> huge = {"--grid", "data=4", "--set", "model.width=65536"};
  expect_line(huge, ": out of memory: a tensor of 96.0 GiB could not be allocated");
  huge.insert(huge.end(), {"--ranks", "4", "--verbose"});
  const Outcome outcome = train({}, "verbose", huge);
  EXPECT_NE(outcome.err.find("frame #"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.status, 1);
}

}  // namespace
}  // namespace fourfold::test
