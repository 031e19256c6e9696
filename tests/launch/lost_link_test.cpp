// Two hosts whose network fails: network namespaces on this machine, which talk to each other only.
// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <filesystem>
#include <regex>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

#include "tests/support/process.hpp"

namespace fourfold::test {
namespace {

/// Four ranks of rank_program, two on each host.
class LostLink : public testing::Test {
 protected:
  const std::string name_ = concat("lost-link-", getpid(), "-",
                                   testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string file_ = (std::filesystem::temp_directory_path() / name_).string();
  ~LostLink() override { std::filesystem::remove(file_); }

  static Outcome run(const std::vector<std::string>& options, const std::vector<std::string>& what,
                     const std::vector<std::string>& environment,
                     const std::function<void(pid_t)>& meanwhile = nullptr) {
    std::vector<std::string> command = {TESTBED, "--hosts", "2", "--slots", "2", "--mbit", "500"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", RANK_PROGRAM});
    command.insert(command.end(), what.begin(), what.end());
    return run_program(command, environment, meanwhile);
  }

  /// The ranks, without mpirun and its helpers, which have the same words among their arguments.
  std::size_t ranks() const {
    std::size_t count = 0;
    for (const pid_t process : processes_with_argument(file_)) {
      std::error_code none;
      const auto program =
          std::filesystem::read_symlink(concat("/proc/", process, "/exe"), none).filename();
      count += program == std::filesystem::path(RANK_PROGRAM).filename() ? 1 : 0;
    }
    return count;
  }
  bool wait_for_ranks(std::size_t count, Seconds limit) const {
    for (const Seconds start = now(); now() - start < limit; usleep(100000)) {
      if (ranks() == count) return true;
    }
    return false;
  }
};

TEST_F(LostLink, RanksOnBothSidesEnd) {
  bool ran = false;
  bool ended = false;
  const Outcome outcome =
      run({"--cut-when", file_}, {"loop", file_}, {"TEST_DEADLINE=4"}, [&](pid_t testbed) {
        ran = wait_for_ranks(4, Seconds(30));
        // The deadline, the time for answers of three arbiters and of all,
        // and some for a machine that is busy.
        ended = ran && wait_for_ranks(0, Seconds(40));
        // mpirun still waits for the host that it cannot reach.
        kill(testbed, SIGTERM);
      });
  if (outcome.status == 77) GTEST_SKIP() << outcome.err;
  EXPECT_TRUE(ran) << outcome.err;
  EXPECT_TRUE(ended) << outcome.err;
  EXPECT_NE(outcome.err.find("is not done after"), std::string::npos) << outcome.err;
  // Rank 0 waits for rank 2, or for rank 1 and so for rank 3: either may be what the cut
  // interrupts.
  EXPECT_TRUE(std::regex_search(outcome.err, std::regex("rank [23] on n1 does not answer")))
      << outcome.err;
  EXPECT_EQ(outcome.err.find("rank_program: "), outcome.err.rfind("rank_program: ")) << outcome.err;
}

// With the setting of docs/training.md.
TEST_F(LostLink, MpirunEndsTooIfItLooksForItsDaemons) {
  const Outcome outcome = run({"--cut-when", file_, "--mca", "oob_tcp_keepalive_time 2", "--mca",
                               "oob_tcp_keepalive_intvl 1", "--mca", "oob_tcp_keepalive_probes 3"},
                              {"loop", file_}, {"TEST_DEADLINE=60"});
  if (outcome.status == 77) GTEST_SKIP() << outcome.err;
  EXPECT_NE(outcome.status, 0);
  EXPECT_LT(outcome.seconds.value(), 50);
  EXPECT_EQ(ranks(), 0U);
}

TEST_F(LostLink, InterfaceThatLeadsNowhereIsExplained) {
  const std::vector<std::string> environment = {"TEST_DEADLINE=20", "TEST_START_TIME=8"};
  const Outcome outcome = run({"--dead-end", "docker0"}, {"ok", "-1", file_}, environment);
  if (outcome.status == 77) GTEST_SKIP() << outcome.err;
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("n0 has eth0 10.99.0.1, docker0 172.17.0.1"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("OMPI_MCA_btl_tcp_if_include=eth0"), std::string::npos);
  EXPECT_EQ(outcome.err.find("rank_program: "), outcome.err.rfind("rank_program: ")) << outcome.err;
  // What the line says helps.
  const Outcome helped = run({"--dead-end", "docker0", "--mca", "btl_tcp_if_include eth0", "--mca",
                              "oob_tcp_if_include eth0"},
                             {"ok", "-1", file_}, {"TEST_DEADLINE=20", "TEST_START_TIME=15"});
  EXPECT_EQ(helped.status, 0) << helped.err;
}

}  // namespace
}  // namespace fourfold::test
