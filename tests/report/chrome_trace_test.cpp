// The trace as Perfetto reads it.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/chrome_trace.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/report/sample_run.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;
using report::RankTrace;
using report::Row;

std::vector<std::string> names_of(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(row.name);
  return names;
}

bool overlap(const Row& row) {
  for (std::size_t i = 1; i < row.spans.size(); ++i) {
    if (row.spans[i].begin < row.spans[i - 1].end) return true;
  }
  return false;
}

json find(const json& events, const std::string& key, const std::string& value) {
  for (const json& event : events) {
    if (event.contains(key) && event[key] == value) return event;
  }
  return nullptr;
}

TEST(TraceRows, OneForComputeAndOneForEachLane) {
  const std::vector<Row> rows = rows_of(sample_trace(0));
  const std::vector<std::string> expected = {"compute", "x activations", "z weights"};
  EXPECT_EQ(names_of(rows), expected);
  EXPECT_EQ(rows[0].spans.size(), 3U);
  EXPECT_EQ(rows[1].spans.size(), 2U);
  for (const Row& row : rows) EXPECT_FALSE(overlap(row)) << row.name;
}

TEST(TraceRows, OperationsAtTheSameTimeGetMore) {
  RankTrace trace;
  trace.lanes = {{4, "pairs"}};
  trace.spans = {operation(1, 5, 4, "x", "send"), operation(0, 2, 4, "x", "recv"),
                 operation(2, 3, 4, "x", "recv"), operation(6, 7, 9, "y")};
  const std::vector<Row> rows = rows_of(trace);
  const std::vector<std::string> expected = {"compute", "pairs", "pairs (2)", "lane 9"};
  EXPECT_EQ(names_of(rows), expected);
  EXPECT_EQ(rows[1].spans.front().name, "recv") << "the first one comes first";
  for (const Row& row : rows) EXPECT_FALSE(overlap(row)) << row.name;
}

TEST(ChromeTrace, HasAProcessForEachRankAndAThreadForEachRow) {
  const json trace = json::parse(report::chrome_trace({sample_trace(0), sample_trace(3)}));
  const json& events = trace["traceEvents"];
  std::set<std::string> processes;
  std::set<std::string> threads;
  for (const json& event : events) {
    if (event["name"] == "process_name") processes.insert(event["args"]["name"]);
    if (event["name"] == "thread_name") threads.insert(event["args"]["name"]);
  }
  EXPECT_EQ(processes, (std::set<std::string>{"rank 0 (host n1) x=0", "rank 3 (host n1) x=3"}));
  EXPECT_EQ(threads, (std::set<std::string>{"compute", "x activations", "z weights"}));
}

TEST(ChromeTrace, SpansHaveTimesInMicrosecondsAndWhatTheyAreAbout) {
  const json trace = json::parse(report::chrome_trace({sample_trace(0)}));
  const json& events = trace["traceEvents"];
  const json step = find(events, "name", "step 3");
  EXPECT_EQ(step["ts"], 0);
  EXPECT_EQ(step["dur"], 10e6);
  const json linear = find(events, "name", "linear");
  EXPECT_EQ(linear["ts"], 0);
  EXPECT_EQ(linear["dur"], 3e6);
  EXPECT_EQ(linear["tid"], 0);
  EXPECT_EQ(linear["args"]["flops"], 1e6);
  EXPECT_EQ(linear["args"]["work"], "product");
  EXPECT_EQ(linear["args"]["phase"], "backward");
  EXPECT_EQ(linear["args"]["step"], 3);
  const json wait = find(events, "cat", "wait");
  EXPECT_EQ(wait["name"], "wait: all_gather x");
  EXPECT_EQ(wait["tid"], 0);
  EXPECT_EQ(wait["ts"], 3e6);
  const json gather = find(events, "name", "all_gather z");
  EXPECT_EQ(gather["tid"], 2);
  EXPECT_EQ(gather["args"]["bytes"], 4096);
  EXPECT_EQ(gather["args"]["queued_us"], 0.25e6);
}

TEST(ChromeTrace, SpansAreNamedAfterTheirLayers) {
  report::RankTrace rank = sample_trace(0);
  for (comm::Span& span : rank.spans) span.layer = "h.3.mlp.c_fc";
  rank.spans.back().layer.clear();
  const json trace = json::parse(report::chrome_trace({rank}));
  const json& events = trace["traceEvents"];
  const json linear = find(events, "name", "h.3.mlp.c_fc linear");
  EXPECT_EQ(linear["args"]["kind"], "linear");
  EXPECT_EQ(linear["args"]["layer"], "h.3.mlp.c_fc");
  EXPECT_EQ(find(events, "cat", "wait")["name"], "wait: h.3.mlp.c_fc all_gather x");
  EXPECT_EQ(find(events, "name", "h.3.mlp.c_fc reduce_scatter x")["args"]["kind"],
            "reduce_scatter");
  EXPECT_FALSE(find(events, "name", "all_gather z")["args"].contains("layer"));
}

TEST(ChromeTrace, WithoutSpansIsStillATrace) {
  EXPECT_TRUE(json::parse(report::chrome_trace({}))["traceEvents"].empty());
}

}  // namespace
}  // namespace fourfold::test
