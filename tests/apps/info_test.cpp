// What a user sees of `fourfold info` and of a wrong command line.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/base/text.hpp"

#include "tests/support/process.hpp"

namespace fourfold::test {
namespace {

TEST(Info, ShowsEveryRankAndWritesTheSameAsJson) {
  const auto file = std::filesystem::temp_directory_path() / concat("fourfold-info-", getpid());
  const Outcome outcome =
      run_program({FOURFOLD_PROGRAM, "info", "--ranks", "2", "--json", file.string()});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* word : {"libtorch", "BLAS", "Open MPI", "GEMM f32", "GFLOP/s"}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << " in\n" << outcome.out;
  }
  const auto json = nlohmann::json::parse(std::ifstream(file));
  std::filesystem::remove(file);
  ASSERT_EQ(json["ranks"].size(), 2U);
  EXPECT_EQ(json["ranks"][1]["rank"], 1);
  EXPECT_NE(json["ranks"][0]["process"], json["ranks"][1]["process"]);
  EXPECT_GT(json["ranks"][0]["gemm_f32_flops_per_second"], 1e8);
  EXPECT_EQ(json["cores"], sysconf(_SC_NPROCESSORS_ONLN));
}

TEST(CommandLine, BadInputIsOneLineWithStatusTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {"fly"},
      {"info", "--rank", "2"},
      {"info", "--ranks", "two"},
      {"info", "--ranks", "-1"},
      {"info", "--ranks", "0"},
      {"info", "--ranks"},
      {"info", "--deadline", "0"},
      {"info", "--deadline", "nan"},
      {"info", "--json", "/no/such/folder/file"},
      {"info", "--ranks", "2", "--json", "/no/such/folder/file"},
      {"info", "extra"}};
  for (const auto& arguments : wrong) {
    std::vector<std::string> command = {FOURFOLD_PROGRAM};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.status, 2) << join(arguments, " ");
    EXPECT_EQ(lines(outcome.err).size(), 1U) << join(arguments, " ") << ":\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << join(arguments, " ");
  }
}

TEST(CommandLine, HelpAndVersion) {
  EXPECT_EQ(run_program({FOURFOLD_PROGRAM, "--help"}).status, 0);
  EXPECT_EQ(run_program({FOURFOLD_PROGRAM, "info", "--help"}).status, 0);
  EXPECT_EQ(run_program({FOURFOLD_PROGRAM, "--version"}).status, 0);
}

}  // namespace
}  // namespace fourfold::test
