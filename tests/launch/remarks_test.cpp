// Which of mpirun's words reach the user.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/launch/remarks.hpp"

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using launch::Death;
using launch::RemarkFilter;

const std::string kRule = std::string(74, '-') + "\n";

TEST(RemarkFilter, PassesOrdinaryTextOn) {
  RemarkFilter filter;
  EXPECT_EQ(filter.feed("one\ntw"), "one\n");
  EXPECT_EQ(filter.flush_line(), "tw");
  EXPECT_EQ(filter.feed("o\n[half"), "o\n");
  EXPECT_EQ(filter.flush_line(), "");  // could become a remark
  EXPECT_EQ(filter.flush(), "[half");
  EXPECT_FALSE(filter.death());
}

TEST(RemarkFilter, TakesRemarksOutAndReadsTheDeath) {
  RemarkFilter filter;
  const std::string text = "before\n" + kRule +
                           "Primary job  terminated normally, but 1 process returned\n"
                           "a non-zero exit code. Per user-direction, the job has been aborted.\n" +
                           kRule + kRule +
                           "mpirun noticed that process rank 2 with PID 0 on node n1 exited on "
                           "signal 9 (Killed).\n" +
                           kRule + "after\n";
  std::string shown;
  for (const char c : text) shown += filter.feed(std::string(1, c));  // whatever the pieces
  EXPECT_EQ(shown + filter.flush(), "before\nafter\n");
  ASSERT_TRUE(filter.death());
  EXPECT_EQ(*filter.death(), (Death{2, "n1", 9, 0}));
  EXPECT_EQ(to_string(*filter.death()), "rank 2 on n1 was killed by signal 9 (Killed)");
}

TEST(RemarkFilter, ReadsAnExitStatus) {
  RemarkFilter filter;
  EXPECT_EQ(
      filter.feed(kRule +
                  "mpirun detected that one or more processes exited with non-zero status, "
                  "thus causing\nthe job to be terminated. The first process to do so was:\n\n"
                  "  Process name: [[24276,1],13]\n  Exit code:    3\n" +
                  kRule),
      "");
  ASSERT_TRUE(filter.death());
  EXPECT_EQ(to_string(*filter.death()), "rank 13 ended with status 3");
}

TEST(RemarkFilter, TakesLinesAboutRemarksOut) {
  RemarkFilter filter;
  EXPECT_EQ(
      filter.feed("[n0:12] 3 more processes have sent help message help-mpi-api.txt / mpi-abort\n"
                  "[n0:12] Set MCA parameter \"orte_base_help_aggregate\" to 0 to see all help / "
                  "error messages\n[n0:12] of our own\n"),
      "[n0:12] of our own\n");
}

TEST(RemarkFilter, TakesOutThatASignalIsPassedOn) {
  RemarkFilter filter;
  EXPECT_EQ(filter.feed("mpirun: Forwarding signal 10 to job\nmpirun: something else\n"),
            "mpirun: something else\n");
}

TEST(RemarkFilter, KeepsATableOfTheProgramsOwn) {
  RemarkFilter filter;
  const std::string table = kRule + "loss 3.1\n" + kRule;
  EXPECT_EQ(filter.feed(table), table);
  const std::string open = kRule + "no end\n";
  EXPECT_EQ(filter.feed(open), "");
  EXPECT_EQ(filter.flush(), open);
}

TEST(RemarkFilter, TakesLogLinesOut) {
  RemarkFilter filter;
  EXPECT_EQ(filter.feed("[vm:129] [[24216,0],0] ORTE_ERROR_LOG: Data unpack would read past\nx\n"),
            "x\n");
  EXPECT_EQ(filter.feed("[vm:16826] Read -1, expected 200000, errno = 3\n[vm: 1] kept\n"),
            "[vm: 1] kept\n");
}

}  // namespace
}  // namespace fourfold::test
