// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/small_list.hpp"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace fourfold {
namespace {

std::string all(const SmallList<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text += item + ";";
  return text;
}

TEST(SmallList, KeepsTheOrderAcrossTheStepFromOneToMany) {
  SmallList<std::string> list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(all(list), "");
  list.push_back("a");
  EXPECT_EQ(list.size(), 1);
  EXPECT_EQ(all(list), "a;");
  list.push_back("b");
  list.push_back("c");
  EXPECT_EQ(list.size(), 3);
  EXPECT_EQ(all(list), "a;b;c;");
  EXPECT_EQ(list.front(), "a");
}

TEST(SmallList, TakesAVectorOfAnyLength) {
  EXPECT_EQ(all(std::vector<std::string>{}), "");
  EXPECT_EQ(all(std::vector<std::string>{"a"}), "a;");
  EXPECT_EQ(all(std::vector<std::string>{"a", "b"}), "a;b;");
}

TEST(SmallList, IsEmptyAfterItsElementsWereTaken) {
  SmallList<std::string> one("a");
  const SmallList<std::string> taken = std::move(one);
  EXPECT_TRUE(one.empty());  // NOLINT: what this test is about
  EXPECT_EQ(all(taken), "a;");
  SmallList<std::string> many(std::vector<std::string>{"a", "b"});
  one = std::move(many);
  EXPECT_TRUE(many.empty());  // NOLINT: what this test is about
  EXPECT_EQ(all(one), "a;b;");
}

TEST(SmallList, ClearLetsGoOfWhatItHolds) {
  const auto held = std::make_shared<int>(1);
  SmallList<std::shared_ptr<int>> list(held);
  list.clear();
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace fourfold
