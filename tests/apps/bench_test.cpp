// What a user gets from `fourfold bench`.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

TEST(Bench, PutsAllStrategiesInOneTable) {
  const Workspace work;
  const Outcome outcome = Workspace::fourfold(
      {"bench", work.config(), "--threads", "4", "--steps", "2", "--json", work.path("b.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json result = work.json("b.json");
  EXPECT_EQ(result["ranks"], 4);
  ASSERT_EQ(result["strategies"].size(), 10U);
  double loss = 0;
  int ran = 0;
  for (const json& one : result["strategies"]) {
    const std::string name = one["strategy"];
    EXPECT_NE(outcome.out.find("\n" + name + " "), std::string::npos) << name;
    if (one.contains("refused")) {
      EXPECT_EQ(name, "3d");
      EXPECT_NE(outcome.out.find("\n3d: " + one["refused"].get<std::string>()), std::string::npos);
      continue;
    }
    ++ran;
    if (loss == 0) loss = one["loss"];
    EXPECT_LT(std::abs(one["loss"].get<double>() / loss - 1), 1e-10) << name;
    EXPECT_GT(one["bytes"]["max"], 0) << name;
    EXPECT_GE(one["bytes"]["max"], one["bytes"]["min"]);
    EXPECT_GT(one["messages"]["max"], 0);
    for (const char* kind : {"parameters", "gradients", "optimizer", "activations"}) {
      EXPECT_GT(one["memory"][kind]["min"], 0) << name << " " << kind;
    }
    double sum = 0;
    for (const json& bytes : one["bytes_by_axes"]) sum += bytes["max"].get<double>();
    EXPECT_GE(sum * 1.0000001, one["bytes"]["max"].get<double>()) << name;
    double waits = 0;
    for (const json& share : one["exposed_by_axes"]) waits += share.get<double>();
    EXPECT_NEAR(one["exposed_share"].get<double>(), waits, 1e-9) << name;
    EXPECT_LE(waits, 1) << name;
  }
  EXPECT_EQ(ran, 9);
}

TEST(Bench, SaysWhichStrategiesHaveNoRoom) {
  const Workspace work;
  // Between what a rank needs with a quarter of the weights and with all of them.
  const auto peak_of = [&](const std::string& strategy, const std::string& grid) {
    const Outcome outcome =
        Workspace::fourfold({"dryrun", work.config(), "--set", "parallel.strategy=" + strategy,
                             "--grid", grid, "--json", work.path("peak.json")});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return work.json("peak.json")["peak_bytes"].get<double>();
  };
  const double split = peak_of("zero3", "z=4");
  const double whole = peak_of("ddp", "data=4");
  ASSERT_LT(split, whole);
  const double gib = (split + whole) / 2 / (1 << 30);
  const Outcome outcome = Workspace::fourfold(
      {"bench", work.config(), "--threads", "4", "--steps", "1", "--strategies", "ddp,zero3",
       "--set", concat("device.memory_gib=", gib), "--json", work.path("b.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\nddp: no grid of 4 ranks has room for this model: data=4 needs "),
            std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("(device.memory_gib)"), std::string::npos);
  EXPECT_TRUE(work.json("b.json")["strategies"][0].contains("refused"));
  EXPECT_EQ(work.json("b.json")["strategies"][1]["grid"]["z"], 4);
}

TEST(Bench, RunsSomeOnProcesses) {
  const Workspace work;
  const Outcome outcome =
      Workspace::fourfold({"bench", work.config(), "--ranks", "2", "--steps", "2", "--strategies",
                           "ddp,zero3", "--json", work.path("b.json")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json result = work.json("b.json");
  ASSERT_EQ(result["strategies"].size(), 2U);
  EXPECT_EQ(result["strategies"][0]["grid"]["data"], 2);
  EXPECT_EQ(result["strategies"][1]["grid"]["z"], 2);
}

TEST(Bench, RefusesBadInput) {
  const Workspace work;
  const auto says = [&](std::vector<std::string> words, const char* line) {
    words.insert(words.begin(), {"bench", work.config()});
    const Outcome outcome = Workspace::fourfold(words);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_NE(outcome.err.find(line), std::string::npos) << outcome.err;
  };
  says({"--strategies", "ddp,magic"}, "there is no magic; there are ddp, zero1");
  says({"--steps", "0"}, "--steps must be at least 1");
  says({"--grid", "x=2"}, "--grid does not go with bench");
  says({"--ranks", "2", "--threads", "2"}, "give --ranks or --threads, not both");
  says({"--threads", "2", "--strategies", "auto"}, "--strategies auto needs --ranks");
  says({"--threads", "0"}, "--threads must be from 1 to 1024, not 0");
  says({"--threads", "2", "--deadline", "0"}, "--deadline must be above 0 seconds");
}

}  // namespace
}  // namespace fourfold::test
