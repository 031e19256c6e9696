// What `fourfold train --trace` leaves behind, and what each step's record says of communication.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

/// Spans of the traced steps by rank and row, in the order of time.
std::map<std::pair<int, int>, std::vector<json>> rows_of(const json& trace) {
  std::map<std::pair<int, int>, std::vector<json>> rows;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] != "step") {
      rows[{event["pid"], event["tid"]}].push_back(event);
    }
  }
  for (auto& [row, spans] : rows) {
    std::sort(spans.begin(), spans.end(),
              [](const json& a, const json& b) { return a["ts"] < b["ts"]; });
  }
  return rows;
}

double end_of(const json& span) {
  return span["ts"].get<double>() + span["dur"].get<double>();
}

/// "process_name" or "thread_name" of every rank.
std::set<std::string> names(const json& trace, const std::string& what) {
  std::set<std::string> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == what) found.insert(event["args"]["name"]);
  }
  return found;
}

std::map<int, json> step_spans(const json& trace, int rank) {
  std::map<int, json> steps;
  for (const json& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "step" && event["pid"] == rank) {
      steps[event["args"]["step"]] = event;
    }
  }
  return steps;
}

TEST(Trace, HasEveryRankAndLeavesNoHoles) {
  const Workspace work;
  const Outcome outcome =
      work.train("run", {"--grid", "x=2,data=2", "--trace", work.path("trace.json"),
                         "--trace-steps", "2-3", "--set", "train.precision=float32"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const json trace = work.json("trace.json");
  const std::set<std::string> ranks = names(trace, "process_name");
  ASSERT_EQ(ranks.size(), 4U);
  EXPECT_NE(ranks.begin()->find("x=0 data=0"), std::string::npos) << *ranks.begin();
  const std::set<std::string> threads = names(trace, "thread_name");
  for (const char* row : {"compute", "x activations", "data gradients", "all ranks"}) {
    EXPECT_TRUE(threads.contains(row)) << row;
  }
  const auto rows = rows_of(trace);
  for (const auto& [row, spans] : rows) {
    for (std::size_t i = 1; i < spans.size(); ++i) {
      EXPECT_LE(end_of(spans[i - 1]), spans[i]["ts"].get<double>() + 1e-3) << spans[i];
    }
  }
  for (const json& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "communication" || event["args"]["axes"] != "x") continue;
    EXPECT_TRUE(event["args"].contains("layer")) << "whose operation is " << event;
  }
  const json result = work.json("run.json");
  for (int rank = 0; rank < 4; ++rank) {
    const std::map<int, json> steps = step_spans(trace, rank);
    ASSERT_EQ(steps.size(), 2U);
    std::map<int, double> filled;
    std::set<std::string> names;
    std::set<std::string> kinds;
    for (const json& span : rows.at({rank, 0})) {
      filled[span["args"]["step"]] += span["dur"].get<double>();
      names.insert(span["name"]);
      kinds.insert(span["args"]["kind"]);
    }
    for (const int step : {2, 3}) {
      EXPECT_NEAR(filled[step], steps.at(step)["dur"].get<double>(), 1.0) << "microseconds";
    }
    for (const char* kind : {"linear", "linear dW", "attention dI", "adamw"}) {
      EXPECT_TRUE(kinds.contains(kind)) << kind;
    }
    for (const char* name : {"h.0.attn.c_attn linear", "h.1.mlp.c_proj linear dW", "h.1.ln_2 norm",
                             "h.0.attn attention dI", "h.1.mlp gelu", "wte logits", "adamw"}) {
      EXPECT_TRUE(names.contains(name)) << name;
    }
  }
  const double seconds = result["steps"][1]["seconds"];
  const double traced = step_spans(trace, 0).at(2)["dur"].get<double>() * 1e-6;
  EXPECT_GE(traced, 0.9 * seconds);
  EXPECT_LE(traced, seconds + 0.2) << "the machine may do something else between the two clocks";
}

TEST(Trace, IsOfTheThirdStepOrTheLast) {
  const Workspace work;
  for (const auto& [steps, traced] : {std::pair{4, 3}, {2, 2}}) {
    const std::string name = concat("run", steps);
    const Outcome outcome =
        work.train(name, {"--trace", work.path("trace.json"), "--set",
                          concat("train.steps=", steps), "--set", "train.precision=float32"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::map<int, json> found = step_spans(work.json("trace.json"), 0);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found.begin()->first, traced);
  }
}

TEST(StepRecords, SayWhatCommunicationTook) {
  const Workspace work;
  ASSERT_EQ(work.train("run", {"--grid", "x=2"}).status, 0);
  const json result = work.json("run.json");
  const std::vector<std::string> records = lines(work.read("run/metrics.jsonl"));
  const json record = json::parse(records.at(0));
  double total = 0;
  double exposed = 0;
  for (const json& row : result["steps"][0]["communication"]) {
    const std::string key =
        concat(row["op"].get<std::string>(), ".", row["axes"].get<std::string>());
    EXPECT_EQ(record["seconds." + key], row["seconds"]) << key;
    EXPECT_EQ(record["exposed." + key], row["exposed_seconds"]) << key;
    total += row["seconds"].get<double>();
    exposed += row["exposed_seconds"].get<double>();
  }
  EXPECT_GT(total, 0);
  EXPECT_NEAR(exposed, result["steps"][0]["exposed_seconds"].get<double>(), 1e-12);
  EXPECT_TRUE(record.contains("exposed.all_gather.x")) << record;
  // All steps together are what the run says.
  std::map<std::pair<std::string, std::string>, double> sums;
  for (const json& step : result["steps"]) {
    for (const json& row : step["communication"]) {
      sums[{row["op"], row["axes"]}] += row["seconds"].get<double>();
    }
  }
  for (const json& row : result["communication"]) {
    if (row["group_size"] == 1) continue;
    const double sum = sums[{row["op"], row["axes"]}];
    EXPECT_NEAR(sum, row["seconds"].get<double>(), 1e-9) << row;
  }
  // TensorBoard's curve of the same.
  bool curve = false;
  for (const auto& file : std::filesystem::directory_iterator(work.path("run"))) {
    const std::string name = file.path().filename().string();
    if (name.starts_with("events.")) {
      curve = work.read("run/" + name).find("exposed/x") != std::string::npos;
    }
  }
  EXPECT_TRUE(curve);
}

}  // namespace
}  // namespace fourfold::test
