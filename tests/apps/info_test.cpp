// What a user sees of `fourfold info` and of a wrong command line.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/base/processor.hpp"
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
  for (const char* word : {"libtorch", "BLAS", "Open MPI", "GPUs", "GEMM f32", "GFLOP/s"}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << " in\n" << outcome.out;
  }
  const auto json = nlohmann::json::parse(std::ifstream(file));
  std::filesystem::remove(file);
  ASSERT_EQ(json["ranks"].size(), 2U);
  EXPECT_EQ(json["ranks"][1]["rank"], 1);
  EXPECT_NE(json["ranks"][0]["process"], json["ranks"][1]["process"]);
  EXPECT_GT(json["ranks"][0]["gemm_f32_flops_per_second"], 1e8);
  EXPECT_EQ(json["cores"], sysconf(_SC_NPROCESSORS_ONLN));
  // Either there are GPUs, or it says why there are none.
  EXPECT_EQ(json["gpus"]["missing"].get<std::string>().empty(), !json["gpus"]["list"].empty());
  EXPECT_EQ(outcome.out.find("GPUs           none: ") == std::string::npos,
            json["gpus"]["missing"].get<std::string>().empty())
      << outcome.out;
}

/// Without anything forced, whatever the environment of the tests is.
const std::vector<std::string> kByProcessor = {
    "FOURFOLD_VECTORS=", "FOURFOLD_BF16_PRODUCTS=", "FOURFOLD_KERNELS="};

nlohmann::json info(const std::vector<std::string>& environment, std::string& printed) {
  const auto file = std::filesystem::temp_directory_path() / concat("fourfold-info-", getpid());
  const Outcome outcome =
      run_program({FOURFOLD_PROGRAM, "info", "--json", file.string()}, environment);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  printed = outcome.out;
  const auto json = nlohmann::json::parse(std::ifstream(file));
  std::filesystem::remove(file);
  return json;
}

TEST(Info, ShowsWhatTheProcessorDecidesAndWhatIsForced) {
  std::string printed;
  const auto free = info(kByProcessor, printed);
  for (const char* choice : {"vectors", "bf16_products"}) {
    EXPECT_EQ(free["choices"][choice]["by"], "by processor");
  }
  EXPECT_NE(printed.find(" (by processor)\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("kernels        own (by device)\n"), std::string::npos) << printed;
  for (const char* way : {"native", "float"}) {
    const auto forced =
        info({"FOURFOLD_VECTORS=plain", concat("FOURFOLD_BF16_PRODUCTS=", way)}, printed);
    EXPECT_EQ(forced["choices"]["bf16_products"]["way"], way);
    EXPECT_EQ(forced["choices"]["bf16_products"]["by"], "FOURFOLD_BF16_PRODUCTS");
    EXPECT_EQ(forced["choices"]["vectors"]["way"], "plain");
    EXPECT_EQ(forced["ranks_choose_alike"], true);
    EXPECT_GT(forced["ranks"][0]["gemm_bf16_flops_per_second"], 1e8);
    for (const std::string& line : {concat("bf16 products  ", way, " (FOURFOLD_BF16_PRODUCTS)\n"),
                                    std::string("vectors        plain (FOURFOLD_VECTORS)\n")}) {
      EXPECT_NE(printed.find(line), std::string::npos) << line << " in\n" << printed;
    }
  }
}

/// OpenBLAS takes a processor that it does not know for one without AVX.
TEST(Info, TheKernelsOfOpenBlasFitTheProcessor) {
  std::string printed;
  const auto free = info(kByProcessor, printed);
  if (free["blas_kernels"] == "") GTEST_SKIP() << "another BLAS than OpenBLAS is loaded";
  if (can_take_special_way(Choice::kVectors)) {
    EXPECT_NE(free["blas_kernels"], "Prescott");
  }
  EXPECT_EQ(info({"OPENBLAS_CORETYPE=Prescott"}, printed)["blas_kernels"], "Prescott");
  EXPECT_NE(printed.find("BLAS kernels   Prescott\n"), std::string::npos) << printed;
}

TEST(CommandLine, AForcedChoiceThatIsNoneIsOneLineWithStatusTwo) {
  for (const char* variable :
       {"FOURFOLD_VECTORS=wide", "FOURFOLD_BF16_PRODUCTS=fast", "FOURFOLD_KERNELS=mine"}) {
    for (const auto& arguments : {std::vector<std::string>{"info"}, {"info", "--ranks", "2"}}) {
      std::vector<std::string> command = {FOURFOLD_PROGRAM};
      command.insert(command.end(), arguments.begin(), arguments.end());
      const Outcome outcome = run_program(command, {variable});
      EXPECT_EQ(outcome.status, 2) << variable;
      EXPECT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
      EXPECT_NE(outcome.err.find(concat(variable, " must be ")), std::string::npos) << outcome.err;
      EXPECT_EQ(outcome.out, "");
    }
  }
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
