// What rank 0 keeps of a run's steps: bounded, and from the first step to the last.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/metrics.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <malloc.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/base/text.hpp"
#include "fourfold/report/page.hpp"
#include "fourfold/train/history.hpp"
#include "fourfold/train/run_report.hpp"

namespace fourfold::test {
namespace {

using train::kMostEntries;
using train::RunMetrics;
using train::StepMetrics;

StepMetrics step_of(std::int64_t number) {
  StepMetrics step;
  step.step = number;
  step.loss = static_cast<double>(number);
  step.seconds = Seconds(number == 1 ? 100 : 1);
  step.exposed = Seconds(0.25);
  step.mfu = 0.5;
  for (const char* axes : {"x", "y", "z", "data", "x+y", "data+z"}) {
    for (const schedule::Op op : {schedule::Op::kAllGather, schedule::Op::kReduceScatter,
                                  schedule::Op::kAllReduce, schedule::Op::kBroadcast}) {
      step.communication.push_back({op, axes, Seconds(0.5), Seconds(0.25 / 24)});
    }
  }
  return step;
}

/// What is allocated, in bytes.
std::int64_t allocated() {
  return static_cast<std::int64_t>(mallinfo2().uordblks + mallinfo2().hblkhd);
}

TEST(Metrics, AShortRunIsKeptStepByStep) {
  RunMetrics run;
  const auto steps = static_cast<std::int64_t>(kMostEntries);
  for (std::int64_t i = 1; i <= steps; ++i) run.steps.add(step_of(i));
  ASSERT_EQ(run.steps.entries().size(), kMostEntries);
  for (std::int64_t i = 1; i <= steps; ++i) {
    const StepMetrics& entry = run.steps.entries()[static_cast<std::size_t>(i - 1)];
    ASSERT_EQ(entry.step, i);
    ASSERT_EQ(entry.count, 1);
    ASSERT_EQ(entry.loss, static_cast<double>(i));
  }
}

TEST(Metrics, ALongRunTakesBoundedMemory) {
  constexpr std::int64_t kSteps = 100'000;
  constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;
  const std::int64_t before = allocated();
  RunMetrics run;
  std::int64_t most = 0;
  for (std::int64_t i = 1; i <= kSteps; ++i) {
    run.steps.add(step_of(i));
    run.validations.add({.step = i, .loss = static_cast<double>(i)});
    if (i % 1000 == 0) most = std::max(most, allocated() - before);
  }
  EXPECT_LT(most, kMostBytes);
  const std::vector<StepMetrics>& entries = run.steps.entries();
  EXPECT_LE(entries.size(), kMostEntries);
  EXPECT_GE(entries.size(), kMostEntries / 2) << "no fewer than the bound asks for";
  EXPECT_LE(run.validations.entries().size(), kMostEntries);
  // Every step is in one entry, and the means are right.
  std::int64_t reached = 0;
  for (const StepMetrics& entry : entries) {
    ASSERT_EQ(entry.step - entry.count, reached);
    ASSERT_NEAR(entry.loss, static_cast<double>(2 * entry.step - entry.count + 1) / 2, 1e-6);
    ASSERT_EQ(entry.communication.size(), 24U);
    ASSERT_NEAR(entry.communication[5].seconds.value(), 0.5, 1e-9);
    reached = entry.step;
  }
  EXPECT_EQ(reached, kSteps);
  EXPECT_EQ(entries[0].count, 1) << "the first step is slower for reasons of its own";
  EXPECT_EQ(run.steps.last().loss, static_cast<double>(kSteps));
  EXPECT_NEAR(train::median_step(entries).value(), 1, 1e-9);
}

TEST(Metrics, OperationsThatSomeStepsLackCountAsNothingThere) {
  StepMetrics a = step_of(1);
  a.communication = {{schedule::Op::kAllGather, "x", Seconds(3), Seconds(1)}};
  StepMetrics b = step_of(2);
  b.communication = {{schedule::Op::kAllGather, "x", Seconds(6), Seconds(4)},
                     {schedule::Op::kAllReduce, "x", Seconds(9), Seconds(6)}};
  b.count = 2;
  a.merge(b);
  ASSERT_EQ(a.communication.size(), 2U);
  const bool gather_first = a.communication[0].op == schedule::Op::kAllGather;
  const auto& gather = a.communication[gather_first ? 0 : 1];
  const auto& reduce = a.communication[gather_first ? 1 : 0];
  EXPECT_NEAR(gather.seconds.value(), 5, 1e-12);
  EXPECT_NEAR(gather.exposed.value(), 3, 1e-12);
  EXPECT_NEAR(reduce.seconds.value(), 6, 1e-12);
  EXPECT_NEAR(reduce.exposed.value(), 4, 1e-12);
}

TEST(Metrics, StepsThatAreLeftOutAreInNoMean) {
  const auto skipped = [](std::int64_t step) {
    StepMetrics bad = step_of(step);
    bad.loss = bad.grad_norm = NAN;
    bad.skipped = 1;
    return bad;
  };
  const double first = step_of(1).loss;
  StepMetrics good = step_of(1);
  good.merge(skipped(2));
  EXPECT_EQ(good.loss, first);
  good.merge(step_of(3));
  EXPECT_DOUBLE_EQ(good.loss, (first + step_of(3).loss) / 2);
  EXPECT_EQ(good.count, 3);
  EXPECT_EQ(good.skipped, 1);
  StepMetrics bad = skipped(1);
  bad.merge(skipped(2));
  EXPECT_TRUE(std::isnan(bad.loss));
  bad.merge(step_of(3));
  EXPECT_EQ(bad.loss, step_of(3).loss);
  EXPECT_EQ(train::skipped_steps({good, bad}), 3);
}

TEST(Metrics, ThePageOfALongRunCoversIt) {
  constexpr std::int64_t kSteps = 100'000;
  RunMetrics run;
  for (std::int64_t i = 1; i <= kSteps; ++i) run.steps.add(step_of(i));
  run.validations.add({.step = kSteps, .loss = 3});
  const report::RunData data = train::report_of("long", {}, run, {});
  EXPECT_EQ(data.steps.front().step, 1);
  EXPECT_EQ(data.steps.back().step, kSteps);
  const auto figure = [&](const std::string& name) {
    for (const auto& [key, value] : data.figures) {
      if (key == name) return value;
    }
    return std::string();
  };
  EXPECT_EQ(figure("loss"), "100000.0000") << "the last step, not a mean";
  EXPECT_EQ(figure("exposed"), "25.0 %");
  const std::string page = report::page(data);
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_NE(page.find("Each point is the mean of "), std::string::npos);
  EXPECT_NE(page.find("<title>steps 2-"), std::string::npos) << "the first bar begins with step 2";
  EXPECT_NE(page.find(concat("-", kSteps, ": ")), std::string::npos) << "the last one ends here";
  const auto json = nlohmann::json::parse(train::to_json(run));
  std::int64_t sum = 0;
  for (const auto& entry : json.at("steps")) sum += entry.value("mean_of", 1);
  EXPECT_EQ(sum, kSteps);
  EXPECT_FALSE(json.at("steps")[0].contains("mean_of"));
}

/// A run that goes on has the steps before it, and none twice.
TEST(Metrics, AreReadAndCutForARunThatGoesOn) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / concat("fourfold-history-", getpid());
  std::filesystem::create_directories(folder);
  {
    train::MetricsFiles files(folder.string(), "tokens");
    for (std::int64_t i = 1; i <= 6; ++i) {
      StepMetrics step = step_of(i);
      if (i == 4) {
        step.loss = NAN;
        step.skipped = 1;
      }
      files.step(step);
      if (i % 2 == 0) files.validation(i, 7);
    }
  }
  std::ofstream(folder / "metrics.jsonl", std::ios::app) << "{\"step\":7,\"lo";
  const train::History all = train::cut_history(folder.string(), 100, "tokens");
  EXPECT_EQ(all.steps.entries().size(), 6U);
  const train::History history = train::cut_history(folder.string(), 4, "tokens");
  ASSERT_EQ(history.steps.entries().size(), 4U);
  EXPECT_EQ(history.validations.entries().size(), 2U);
  const StepMetrics& found = history.steps.entries()[2];
  const StepMetrics expected = step_of(3);
  EXPECT_EQ(found.step, 3);
  EXPECT_EQ(found.skipped, 0);
  EXPECT_TRUE(std::isnan(history.steps.entries()[3].loss));
  EXPECT_EQ(history.steps.entries()[3].skipped, 1);
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_EQ(found.seconds, expected.seconds);
  EXPECT_EQ(found.mfu, expected.mfu);
  ASSERT_EQ(found.communication.size(), expected.communication.size());
  EXPECT_EQ(train::exposed_by_axes(found), train::exposed_by_axes(expected));
  std::ifstream file(folder / "metrics.jsonl");
  std::int64_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  EXPECT_EQ(count, 6) << "four steps and two validations";
  EXPECT_TRUE(train::cut_history(folder.string(), 0, "tokens").steps.empty());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace fourfold::test
