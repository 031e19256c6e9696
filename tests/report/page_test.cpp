// The page about a run, as text. What a browser makes of it: tests/apps/report_test.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/report/page.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/report/html.hpp"

#include "tests/report/sample_run.hpp"

namespace fourfold::test {
namespace {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(Page, ShowsTheRun) {
  const std::string html = report::page(sample_run());
  EXPECT_TRUE(has(html, "<h1>sample</h1>"));
  EXPECT_TRUE(has(html, "a model on a grid"));
  EXPECT_TRUE(has(html, "<dt>loss</dt><dd>1.2345</dd>"));
  EXPECT_EQ(count(html, "<circle class=\"dot training\""), 5U);
  EXPECT_EQ(count(html, "<circle class=\"dot validation\""), 2U);
  EXPECT_EQ(count(html, "<g class=\"bar\">"), 4U) << "the first step is left out";
  EXPECT_TRUE(has(html, "step 2: 500 ms, compute 350 ms, waiting for x 100 ms, waiting for y+z"));
  EXPECT_TRUE(has(html, "rank 1 (host n1) x=1"));
  EXPECT_TRUE(has(html, "wait: all_gather over x, 1.00 s, 4.00 KiB"));
  EXPECT_TRUE(has(html, "width = 24"));
  EXPECT_TRUE(has(html, "<tr><td>command</td><td>fourfold train a.toml</td></tr>"));
}

TEST(Page, ShowsPicturesWithinThePage) {
  report::RunData run = sample_run();
  EXPECT_FALSE(has(report::page(run), "What the model draws"));
  run.pictures = {{"samples-000200.png", std::string("\0\1\2\xff", 4)}, {"a<b", "Man"}};
  const std::string html = report::page(run);
  EXPECT_TRUE(has(html, "What the model draws"));
  EXPECT_TRUE(has(html, "alt=\"samples-000200.png\" src=\"data:image/png;base64,AAEC/w==\""));
  EXPECT_TRUE(has(html, "alt=\"a&lt;b\" src=\"data:image/png;base64,TWFu\""));
  EXPECT_EQ(report::data_uri("text/plain", "Ma"), "data:text/plain;base64,TWE=");
  EXPECT_EQ(report::data_uri("text/plain", ""), "data:text/plain;base64,");
}

TEST(Page, NamesTheLayersOfBlocks) {
  report::RunData run = sample_run();
  for (comm::Span& span : run.traces[0].spans) span.layer = "h.3.mlp.c_fc";
  const std::string html = report::page(run);
  EXPECT_TRUE(has(html, "<title>h.3.mlp.c_fc linear, 3.00 s"));
  EXPECT_TRUE(has(html, "<title>wait: h.3.mlp.c_fc all_gather over x, 1.00 s"));
}

TEST(Page, TablesAreOfAMeanStep) {
  const std::string html = report::page(sample_run());
  EXPECT_TRUE(has(html,
                  "<tr><td>x</td><td>all_gather</td><td>2</td><td>4</td><td>2.00 KiB</td>"
                  "<td>1.00 KiB</td><td>200 ms</td><td>100 ms</td></tr>"))
      << html;
  EXPECT_FALSE(has(html, "<td>data</td>")) << "a group of one has nothing to say";
  EXPECT_LT(html.find("<tr><td>x</td>"), html.find("<tr><td>y+z</td>")) << "most exposed first";
  EXPECT_TRUE(has(html, "<tr><td>parameters</td><td>1.00 MiB</td></tr>"));
}

TEST(Page, HasTheSameColourForAxesEverywhere) {
  const std::string html = report::page(sample_run());
  // x, z and y+z in this order.
  EXPECT_TRUE(has(html, "<i class=\"a0\"></i>waiting for x"));
  EXPECT_TRUE(has(html, "<i class=\"a0\"></i>communication over x"));
  EXPECT_TRUE(has(html, "<i class=\"a1\"></i>communication over z"));
  EXPECT_TRUE(has(html, "<i class=\"a2\"></i>waiting for y+z"));
  EXPECT_TRUE(has(html, "<rect class=\"a1\""));
  EXPECT_TRUE(has(html, "<rect class=\"wait\""));
}

TEST(Page, IsSafeWhateverTheTextsHold) {
  report::RunData run = sample_run();
  const std::string bad = "<script>\"'&";
  run.name = run.about = run.configuration = bad;
  run.figures[0] = {bad, bad};
  run.facts[0] = {bad, bad};
  run.memory[0].first = bad;
  run.steps[2].exposed[bad] = Seconds(0.1);
  run.communication[{schedule::Op::kAllReduce, bad, 2}] = {};
  run.traces[0].host = run.traces[0].lanes[2] = bad;
  run.traces[0].spans[0].name = run.traces[0].spans[0].layer = bad;
  run.traces[0].spans[1].axes = bad;
  const std::string html = report::page(run);
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_FALSE(has(html, "\"'&<"));
  EXPECT_GE(count(html, report::escaped(bad)), 15U);
}

TEST(Page, NeedsNothingElse) {
  const std::string html = report::page(sample_run());
  for (const char* word : {"http:", "https:", "src=", "url(", "@import"}) {
    EXPECT_FALSE(has(html, word)) << word;
  }
}

/// Which values the time axis of a timeline shows, and where.
std::string time_axis(const std::string& html, const std::string& id) {
  const auto begin = html.find("<svg id=\"" + id + "\"");
  if (begin == std::string::npos) return {};
  std::string ticks;
  const auto end = html.find("</svg>", begin);
  for (auto at = html.find("<text class=\"tick mid\" x=\"", begin); at < end;
       at = html.find("<text class=\"tick mid\" x=\"", at + 1)) {
    ticks += html.substr(html.find("x=\"", at), html.find(" y=", at) - html.find("x=\"", at));
    ticks += html.substr(html.find('>', at), html.find('<', at + 1) - html.find('>', at)) + " ";
  }
  return ticks;
}

TEST(Page, DrawsThePredictedStepOnTheScaleOfTheMeasuredOne) {
  report::RunData run = sample_run();
  EXPECT_FALSE(has(report::page(run), "<h3>")) << "there is no prediction";
  report::RankTrace predicted = sample_trace(0);
  predicted.place = "";
  predicted.steps = {{2, Seconds(0), Seconds(4)}};
  predicted.spans = {compute(0, 3), wait(3, 4, 7, "data"), operation(2, 4, 7, "data")};
  run.predicted = {predicted};
  const std::string html = report::page(run);
  EXPECT_TRUE(has(html, "Step 3, 10.0 s; predicted: 4.00 s."));
  EXPECT_LT(html.find("<h3>Predicted</h3>"), html.find("<h3>Measured</h3>"));
  EXPECT_TRUE(has(html, ">every rank</text>"));
  EXPECT_TRUE(has(html, "communication over data")) << "it is in no measured rank";
  EXPECT_EQ(time_axis(html, "predicted"), time_axis(html, "timeline"));
  EXPECT_TRUE(has(time_axis(html, "timeline"), ">10000 ")) << time_axis(html, "timeline");

  run.predicted_part = "2 blocks a stage";
  EXPECT_TRUE(has(report::page(run), "the prediction shows a part of a step: 2 blocks a stage."));
}

TEST(Page, DrawsTheRanksThatThePredictionIsAbout) {
  report::RunData run = sample_run(5, 64);
  for (const int rank : {0, 32}) {
    run.predicted.push_back(sample_trace(rank));
    run.predicted.back().place = concat("pipe=", rank / 32);
  }
  const std::string html = report::page(run);
  EXPECT_TRUE(has(html, ">ranks with pipe=1</text>"));
  EXPECT_TRUE(has(html, "; 8 of 64 ranks"));
  EXPECT_TRUE(has(html, "rank 6 (host"));
  EXPECT_FALSE(has(html, "rank 7 (host"));
  EXPECT_TRUE(has(html, "rank 32 (host"));
}

TEST(Page, StaysSmall) {
  report::RunData run = sample_run(10000, 64);
  run.validations.clear();
  for (int i = 1; i <= 5000; ++i) run.validations.emplace_back(2 * i, 3.0);
  for (report::RankTrace& trace : run.traces) {
    trace.spans.clear();
    for (int i = 0; i < 5000; ++i) {
      const double begin = 10 + i * 2e-3;
      trace.spans.push_back(compute(begin, begin + 1e-3));
      trace.spans.push_back(wait(begin + 1e-3, begin + 2e-3, 2, "x"));
      for (int lane = 0; lane < 8; ++lane) {
        trace.spans.push_back(operation(begin, begin + 1e-3, lane, "x"));
      }
    }
  }
  const std::string html = report::page(run);
  EXPECT_LT(html.size(), 2000000U);
  EXPECT_TRUE(has(html, "the first 8 of 64 ranks"));
  EXPECT_TRUE(has(html, "rank 7 (host"));
  EXPECT_FALSE(has(html, "rank 8 (host"));
  EXPECT_TRUE(has(html, "Each point is the mean of 25 steps."));
  EXPECT_TRUE(has(html, "without the first step. Each bar is the mean of 84 steps."));
}

TEST(Page, CanDoWithLittle) {
  report::RunData one = sample_run(1, 1);
  one.validations.clear();
  one.communication.clear();
  one.traces.clear();
  report::RunData odd = sample_run();
  odd.steps[2].loss = NAN;
  odd.validations[0].second = INFINITY;
  report::RunData validated;
  validated.validations = {{1, 2.0}};
  for (const report::RunData& run : {one, odd, validated, report::RunData{}}) {
    const std::string html = report::page(run);
    EXPECT_TRUE(has(html, "</html>"));
    for (const char* word : {"nan", "NaN", "inf\"", "-inf"}) EXPECT_FALSE(has(html, word)) << word;
  }
}

}  // namespace
}  // namespace fourfold::test
