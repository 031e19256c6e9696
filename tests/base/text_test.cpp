// Helpers that put text together and take it apart, at their edges.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/text.hpp"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using Strings = std::vector<std::string>;

TEST(Text, ConcatStreamsEveryPart) {
  EXPECT_EQ(concat("a", 1, ' ', 2.5, std::string("b")), "a1 2.5b");
}

TEST(Text, JoinPutsSeparatorsBetween) {
  EXPECT_EQ(join(std::vector<int>{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(join(Strings{"only"}, ", "), "only");
  EXPECT_EQ(join(Strings{"", ""}, "-"), "-");
  EXPECT_EQ(join(std::vector<int>{}, ", "), "");
}

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_EQ(split("a,b,c", ','), (Strings{"a", "b", "c"}));
  EXPECT_EQ(split("a", ','), (Strings{"a"}));
  EXPECT_EQ(split(",a,,b,", ','), (Strings{"", "a", "", "b", ""}));
  EXPECT_EQ(split(",", ','), (Strings{"", ""}));
  EXPECT_EQ(split("", ','), Strings{});
}

TEST(Text, SplitAndJoinAreInverse) {
  for (const char* text : {"a", "a,b", ",", "a,,b", ",a", "a,"}) {
    EXPECT_EQ(join(split(text, ','), ","), text);
  }
}

TEST(Text, TrimTakesWhiteSpaceAtBothEnds) {
  EXPECT_EQ(trim(" \t\r\n a b \t\r\n"), "a b");
  EXPECT_EQ(trim("a"), "a");
  EXPECT_EQ(trim(" a"), "a");
  EXPECT_EQ(trim("a "), "a");
  EXPECT_EQ(trim(" \n\t "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(ParseInt, TakesWholeNumbers) {
  EXPECT_EQ(parse_int("0"), 0);
  EXPECT_EQ(parse_int("-0"), 0);
  EXPECT_EQ(parse_int("42"), 42);
  EXPECT_EQ(parse_int("-42"), -42);
  EXPECT_EQ(parse_int("007"), 7);
}

TEST(ParseInt, TakesTheLimitsAndNothingBeyond) {
  EXPECT_EQ(parse_int("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_int("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_int("9223372036854775808"), std::nullopt);
  EXPECT_EQ(parse_int("-9223372036854775809"), std::nullopt);
  EXPECT_EQ(parse_int("100000000000000000000000"), std::nullopt);
}

TEST(ParseInt, RefusesTheRest) {
  for (const char* text : {"", " ", "-", "+", "+1", " 1", "1 ", "1x", "x1", "1.0", "1e3", "0x10",
                           "1,000", "--1", "one", "1\n"}) {
    EXPECT_EQ(parse_int(text), std::nullopt) << "'" << text << "'";
  }
  EXPECT_EQ(parse_int(std::string_view("1\0", 2)), std::nullopt);
}

TEST(ParseInt, ReadsOnlyTheView) {
  const std::string_view digits = "12345";
  EXPECT_EQ(parse_int(digits.substr(1, 2)), 23);
  EXPECT_EQ(parse_int(digits.substr(0, 0)), std::nullopt);
}

TEST(ParseNumber, TakesFiniteNumbers) {
  EXPECT_EQ(parse_number("0"), 0.0);
  EXPECT_EQ(parse_number("-2.5"), -2.5);
  EXPECT_EQ(parse_number("3e-4"), 3e-4);
  EXPECT_EQ(parse_number("1E3"), 1000.0);
  EXPECT_EQ(parse_number(".5"), 0.5);
  EXPECT_EQ(parse_number("5."), 5.0);
  EXPECT_EQ(parse_number("0.1"), 0.1);
  EXPECT_EQ(parse_number("1.7976931348623157e308"), std::numeric_limits<double>::max());
}

TEST(ParseNumber, RefusesWhatIsNotFinite) {
  for (const char* text : {"nan", "NaN", "-nan", "nan(1)", "inf", "-inf", "INF", "infinity",
                           "-Infinity", "1e309", "-1e309", "1e99999"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(ParseNumber, RefusesTheRest) {
  for (const char* text : {"", " ", ".", "-", "+1.5", " 1.5", "1.5 ", "1.5x", "1,5", "1.5.2", "e5",
                           "1e", "1e+", "0x10", "--1"}) {
    EXPECT_EQ(parse_number(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(Ranges, FoldsRuns) {
  EXPECT_EQ(ranges({0, 1, 2, 5}), "0-2,5");
  EXPECT_EQ(ranges({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(ranges({0, 1}), "0,1");
  EXPECT_EQ(ranges({4}), "4");
  EXPECT_EQ(ranges({0, 2, 4}), "0,2,4");
  EXPECT_EQ(ranges({1, 3, 4, 5, 7, 8}), "1,3-5,7,8");
  EXPECT_EQ(ranges({}), "");
}

}  // namespace
}  // namespace fourfold::test
