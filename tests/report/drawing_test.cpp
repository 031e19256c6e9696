// Ticks, numbers and pixels.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/report/html.hpp"
#include "fourfold/report/palette.hpp"
#include "fourfold/report/pixels.hpp"
#include "fourfold/report/scale.hpp"

#include "tests/report/sample_run.hpp"

namespace fourfold::test {
namespace {

using report::Block;
using report::Scale;

std::string text_of(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(report::number(value));
  return join(texts, " ");
}

TEST(Ticks, AreRound) {
  EXPECT_EQ(text_of(report::ticks(0, 1, 5)), "0 0.2 0.4 0.6 0.8 1");
  EXPECT_EQ(text_of(report::ticks(2.9, 9.2, 5)), "4 6 8");
  EXPECT_EQ(text_of(report::ticks(-3, 3, 6)), "-3 -2 -1 0 1 2 3");
  EXPECT_EQ(text_of(report::ticks(0, 2947, 10)), "0 500 1000 1500 2000 2500");
  EXPECT_EQ(text_of(report::ticks(1, 3, 7, 1)), "1 2 3") << "whole numbers only";
  EXPECT_EQ(text_of(report::ticks(1e-7, 1.1e-7, 2)), "1e-07 1.05e-07 1.1e-07");
}

TEST(Numbers, AreShort) {
  EXPECT_EQ(report::px(12.34), "12.3");
  EXPECT_EQ(report::px(-0.04), "0");
  EXPECT_EQ(report::px(1200), "1200");
  EXPECT_EQ(report::number(0.1 + 0.2), "0.3");
}

TEST(Scale, RunsBothWays) {
  const Scale down{0, 10, 100, 0};
  EXPECT_EQ(down(0), 100);
  EXPECT_EQ(down(2.5), 75);
}

TEST(Palette, GivesSingleAxesTheFirstColours) {
  const report::Palette palette({"all", "data", "x", "x+y", "z"});
  EXPECT_EQ(join(palette.axes(), " "), "data x z all x+y");
  EXPECT_EQ(palette.of_axes("x"), "a1");
  EXPECT_EQ(palette.of_span(compute(0, 1)), "compute");
  EXPECT_EQ(palette.of_span(compute(0, 1, "other")), "other");
  EXPECT_EQ(palette.of_span(wait(0, 1, 0, "x")), "wait");
  EXPECT_EQ(palette.of_span(operation(0, 1, 0, "z")), "a2");
}

std::vector<Block> blocks_of(const std::vector<comm::Span>& spans) {
  // A pixel a second, from 100 on.
  return report::blocks_of(spans, {100, 200, 0, 100},
                           [](const comm::Span& span) { return span.name; });
}

TEST(Pixels, WideSpansStayWhatTheyAre) {
  const std::vector<comm::Span> spans = {compute(90, 95), compute(98, 110, "a"),
                                         compute(110, 112.5, "b"), compute(190, 240, "c"),
                                         compute(250, 260)};
  const std::vector<Block> blocks = blocks_of(spans);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].begin, 0) << "cut at the edge";
  EXPECT_EQ(blocks[0].end, 10);
  EXPECT_EQ(blocks[1].end, 12.5);
  EXPECT_EQ(blocks[1].span, &spans[2]);
  EXPECT_EQ(blocks[2].end, 100) << "cut at the edge";
}

TEST(Pixels, SmallSpansShareThem) {
  std::vector<comm::Span> spans;
  for (int i = 0; i < 300; ++i) {
    const double begin = 110 + i * 0.01;
    spans.push_back(compute(begin, begin + 0.004, "little"));
    spans.push_back(compute(begin + 0.004, begin + 0.01, "much"));
  }
  spans.push_back(compute(150.5, 150.6, "alone"));
  const std::vector<Block> blocks = blocks_of(spans);
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].colour, "much");
  EXPECT_EQ(blocks[0].begin, 10);
  EXPECT_EQ(blocks[0].end, 13);
  EXPECT_EQ(blocks[0].span, nullptr);
  EXPECT_EQ(blocks[1].colour, "alone") << "however short, it is seen";
  EXPECT_EQ(blocks[1].end - blocks[1].begin, 1);
}

}  // namespace
}  // namespace fourfold::test
