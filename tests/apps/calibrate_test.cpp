// What a user gets from `fourfold calibrate`, and from runs on a machine that was calibrated.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/apps/browser.hpp"
#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

class Calibrate : public testing::Test {
 protected:
  /// Runs the program with a cache of its own.
  Outcome fourfold(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), FOURFOLD_PROGRAM);
    return run_program(arguments, {"XDG_CACHE_HOME=" + work.path("cache")});
  }
  Outcome calibrate(int ranks) const {
    return fourfold({"calibrate", "--ranks", std::to_string(ranks), "--rounds", "1", "--out",
                     work.path("here.toml")});
  }
  Outcome train(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = work.train_arguments(name, more);
    return fourfold(arguments);
  }
  std::size_t cached() const {
    std::size_t count = 0;
    std::error_code none;
    for (const auto& file :
         std::filesystem::directory_iterator(work.path("cache/fourfold/clusters"), none)) {
      count += file.is_regular_file() ? 1 : 0;
    }
    return count;
  }

  Workspace work;
};

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST_F(Calibrate, DescribesTheMachineForPlan) {
  const Outcome outcome = calibrate(2);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const char* words :
       {"2 ranks, 2 on each host, first host ", " in f32 and ", "bandwidth of a rank",
        "written to ", "use it with fourfold plan --cluster ",
        "runs on these ranks are predicted"}) {
    EXPECT_TRUE(has(outcome.out, words)) << words << "\n" << outcome.out;
  }
  EXPECT_FALSE(has(outcome.out, "too slow")) << "nothing is emulated";
  EXPECT_EQ(cached(), 1U);
  const Outcome plan = fourfold({"plan", work.config(), "--cluster", work.path("here.toml"),
                                 "--gpus", "2", "--top", "2", "--json", work.path("plan.json")});
  ASSERT_EQ(plan.status, 0) << plan.err;
  EXPECT_EQ(work.json("plan.json")["plans"].size(), 2U);
}

/// No machine is as fast as these devices.
TEST_F(Calibrate, SaysThatTheMachineIsTooSlowToEmulateTheDevice) {
  const Outcome outcome = fourfold({"calibrate", "--ranks", "2", "--rounds", "1", "--gflops", "1e6",
                                    "--out", work.path("here.toml")});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "the machine was too slow to keep up with device.gflops = 1e+06: "))
      << outcome.out;
}

void expect_close(const json& predicted, const json& measured) {
  EXPECT_NEAR(predicted.get<double>() / measured.get<double>(), 1, 0.03);
}

/// The prediction and the measurement, in the output, the results and the log.
void expect_prediction(const Outcome& run, const json& result, const std::string& log) {
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(has(run.out, "\npredicted: a step of ")) << run.out;
  EXPECT_TRUE(has(run.out, " of tensors; measured: ")) << run.out;
  EXPECT_TRUE(has(log, "predicted: a step of ")) << log;
  const json& summary = result["summary"];
  EXPECT_GT(summary["predicted_step_seconds"], 0);
  EXPECT_GT(summary["step_seconds"], 0);
  expect_close(summary["predicted_peak_bytes"], summary["peak_bytes"]);
}

/// The memory needs no measurement of the machine.
TEST_F(Calibrate, OnlyTheMemoryIsPredictedWithoutIt) {
  const Outcome run = train("run", {"--grid", "x=2"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(has(run.out, "\npredicted: ")) << run.out;
  EXPECT_TRUE(has(run.out, " of tensors; measured: ")) << run.out;
  EXPECT_TRUE(has(run.out,
                  "the time of the step was not predicted, since this machine has not been "
                  "measured with 2 ranks: fourfold calibrate --ranks 2, or a run with "
                  "parallel.strategy = \"auto\", does that once\n"))
      << run.out;
  const json summary = work.json("run.json")["summary"];
  EXPECT_FALSE(summary.contains("predicted_step_seconds"));
  expect_close(summary["predicted_peak_bytes"], summary["peak_bytes"]);
  EXPECT_TRUE(
      has(train("alone", {}).out, "measured with 1 rank: fourfold calibrate does that once\n"))
      << "one rank has no choice";

  const Outcome bench = fourfold({"bench", work.config(), "--ranks", "2", "--steps", "2",
                                  "--strategies", "zero3", "--json", work.path("bench.json")});
  ASSERT_EQ(bench.status, 0) << bench.err;
  for (const char* words :
       {"measured and predicted: all tensors of the fullest rank\n", "predicted MB\n",
        "\nthe time of the step was not predicted, since this machine"}) {
    EXPECT_TRUE(has(bench.out, words)) << words << "\n" << bench.out;
  }
  EXPECT_FALSE(has(bench.out, "predicted s")) << bench.out;
  const json row = work.json("bench.json")["strategies"][0];
  EXPECT_FALSE(row.contains("predicted_step_seconds"));
  expect_close(row["predicted_peak_bytes"], row["peak_bytes"]["max"]);
  EXPECT_EQ(cached(), 0U) << "nothing is measured unless the user wants it";
}

TEST_F(Calibrate, LetsEveryRunPredictItsStep) {
  ASSERT_EQ(calibrate(2).status, 0);
  const Outcome given = train("given", {"--grid", "x=2", "--report", work.path("page.html")});
  expect_prediction(given, work.json("given.json"), work.read("given/log.txt"));
  const Outcome named = train("named", {"--ranks", "2", "--set", "parallel.strategy=zero3"});
  expect_prediction(named, work.json("named.json"), work.read("named/log.txt"));
  EXPECT_TRUE(has(train("alone", {}).out, "measured with 1 rank: ")) << "other ranks";

  const Outcome bench =
      fourfold({"bench", work.config(), "--ranks", "2", "--steps", "2", "--strategies",
                "auto,ddp,zero3", "--json", work.path("bench.json")});
  ASSERT_EQ(bench.status, 0) << bench.err;
  EXPECT_TRUE(has(bench.out, "predicted s")) << bench.out;
  const json compared = work.json("bench.json");
  ASSERT_EQ(compared["strategies"].size(), 3U);
  EXPECT_EQ(compared["strategies"][0]["strategy"], "auto");
  EXPECT_EQ(compared["strategies"][0]["micro_batches"], 2) << "which the configuration gives";
  for (const json& row : compared["strategies"]) {
    EXPECT_GT(row["predicted_step_seconds"], 0);
    expect_close(row["predicted_peak_bytes"], row["peak_bytes"]["max"]);
  }
}

/// The plan chooses what nobody has given.
TEST_F(Calibrate, RunsWithoutAGridTakeThePlan) {
  const Outcome alone = train("alone", {});
  ASSERT_EQ(alone.status, 0) << alone.err;
  EXPECT_EQ(cached(), 0U) << "one rank has no choice";
  const Outcome impossible = train("impossible", {"--ranks", "7"});
  EXPECT_EQ(impossible.status, 2);
  EXPECT_TRUE(has(impossible.err, "no grid of 7 ranks")) << impossible.err;
  EXPECT_EQ(cached(), 0U) << "nothing to measure";
  const Outcome planned = train("planned", {"--ranks", "2", "--set", "train.micro_batch=4"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  EXPECT_TRUE(has(planned.out, "the plan for 2 ranks: ")) << planned.out;
  EXPECT_TRUE(has(work.read("planned/config.toml"), "micro_batch = 4\n"));
  const Outcome given = train("given", {"--ranks", "2", "--grid", "x=2"});
  ASSERT_EQ(given.status, 0) << given.err;
  EXPECT_FALSE(has(given.out, "the plan for")) << given.out;
}

TEST_F(Calibrate, AutoMeasuresOnceAndShowsBothTimelines) {
  ASSERT_TRUE(Browser::installed()) << "chromium is missing: scripts/install-deps.sh test";
  const std::vector<std::string> options = {"--ranks", "2", "--report", work.path("page.html")};
  const Outcome first = train("first", options);
  expect_prediction(first, work.json("first.json"), work.read("first/log.txt"));
  EXPECT_TRUE(has(first.out, "measuring this machine once, for the plan")) << first.out;
  EXPECT_TRUE(has(first.out, "the plan for 2 ranks: ")) << first.out;
  EXPECT_EQ(cached(), 1U);
  const Outcome page = Browser(work.path("browser")).document(work.path("page.html"));
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_EQ(page.err.find("CONSOLE"), std::string::npos) << page.err;
  EXPECT_EQ(elements(page.out, "h3"), (std::vector<std::string>{"Predicted", "Measured"}));
  EXPECT_EQ(elements(page.out, "svg id=\"predicted").size(), 1U);
  EXPECT_EQ(elements(page.out, "svg id=\"timeline").size(), 1U);
  const std::vector<std::string> names = elements(page.out, "dt");
  EXPECT_NE(std::find(names.begin(), names.end(), "predicted step"), names.end());
  // Both have the same scale: their ticks are at the same places.
  const auto ticks = [&](const std::string& id) {
    const auto begin = page.out.find("<svg id=\"" + id + "\"");
    const std::string svg = page.out.substr(begin, page.out.find("</svg>", begin) - begin);
    return elements(svg, "text class=\"tick mid");
  };
  EXPECT_EQ(ticks("predicted"), ticks("timeline"));
  EXPECT_GE(ticks("timeline").size(), 2U);
}

TEST_F(Calibrate, RefusesBadInput) {
  const auto says = [&](const std::string& words, std::vector<std::string> more) {
    more.insert(more.begin(), "calibrate");
    const Outcome outcome = fourfold(more);
    EXPECT_EQ(outcome.status, 2) << words;
    EXPECT_EQ(lines(outcome.err).size(), 1U) << outcome.err;
    EXPECT_TRUE(has(outcome.err, words)) << words << " is not in " << outcome.err;
    EXPECT_EQ(cached(), 0U);
  };
  says("--out /no/such/file.toml cannot be written", {"--out", "/no/such/file.toml"});
  const std::string out = work.path("here.toml");
  says("--rounds must be at least 1, not 0", {"--rounds", "0", "--out", out});
  says("--name must not be empty", {"--name", "", "--out", out});
  says("--gflops must be above 0, not -1", {"--gflops", "-1", "--out", out});
  says("--gbytes-per-second must be above 0, not -2", {"--gbytes-per-second", "-2", "--out", out});
  says("--memory-gib must be above 0, not 0", {"--memory-gib", "0", "--out", out});
  says("--ranks", {"--ranks", "0", "--out", out});
  says("see fourfold calibrate --help", {"--rounds", "many", "--out", out});
  EXPECT_FALSE(work.has("here.toml"));
}

}  // namespace
}  // namespace fourfold::test
