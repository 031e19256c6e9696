// Weighted max-min fairness.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/sharing.hpp"

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using plan::Flow;

std::vector<double> speeds(std::vector<Flow> flows) {
  std::vector<Flow*> list;
  for (Flow& flow : flows) list.push_back(&flow);
  plan::Sharing(3).share(list);
  std::vector<double> speeds;
  for (const Flow& flow : flows) speeds.push_back(flow.speed);
  return speeds;
}

void expect(const std::vector<Flow>& flows, const std::vector<double>& expected) {
  const std::vector<double> found = speeds(flows);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
}

TEST(Sharing, FullSpeedWhereThereIsRoom) {
  expect({}, {});
  expect({{1, {{0, 1}}}}, {1});
  expect({{1, {{0, 0.4}}}, {1, {{0, 0.6}}}, {1, {{1, 1}}}, {1, {}}}, {1, 1, 1, 1});
}

TEST(Sharing, EqualShares) {
  expect({{1, {{0, 1}}}, {1, {{0, 1}}}}, {0.5, 0.5});
  // One needs less than its share, and the other gets the rest.
  expect({{1, {{0, 0.2}}}, {1, {{0, 1}}}}, {1, 0.8});
  // Shares are those of the link: a half for both.
  expect({{1, {{0, 0.6}}}, {1, {{0, 1}}}}, {0.5 / 0.6, 0.5});
  // A flow without a load is not slowed down.
  expect({{1, {{0, 1}}}, {1, {{0, 1}}}, {1, {}}}, {0.5, 0.5, 1});
}

TEST(Sharing, Weights) {
  expect({{8, {{0, 1}}}, {1, {{0, 1}}}}, {8.0 / 9, 1.0 / 9});
  expect({{8, {{0, 0.5}}}, {1, {{0, 1}}}}, {1, 0.5});
}

/// Two flows fill resource 0; the third goes on growing until it runs at full speed, and not beyond
/// it. A use without a load does not count.
TEST(Sharing, AFlowGrowsOnWhenOthersHaveStopped) {
  expect({{1, {{0, 1}}}, {1, {{0, 1}}}, {1, {{1, 0.8}}}}, {0.5, 0.5, 1});
  expect({{1, {{0, 1}}}, {1, {{0, 1}}}, {1, {{0, 0}, {1, 0.8}}}}, {0.5, 0.5, 1});
}

/// The share of a flow is that of the resource that it uses most, wherever it stands in the list.
TEST(Sharing, TheLargestUseIsTheShare) {
  expect({{1, {{0, 1}, {1, 0.25}}}, {1, {{1, 1}}}}, {0.8, 0.8});
  expect({{1, {{1, 0.25}, {0, 1}}}, {1, {{1, 1}}}}, {0.8, 0.8});
}

TEST(Sharing, TheTightestResourceDecides) {
  // The first flow uses both resources. The second is alone with it on resource 0, the others on 1:
  // a third of resource 1 is all that the first flow can use.
  expect({{1, {{0, 1}, {1, 1}}}, {1, {{0, 1}}}, {1, {{1, 1}}}, {1, {{1, 1}}}},
         {1.0 / 3, 2.0 / 3, 1.0 / 3, 1.0 / 3});
}

}  // namespace
}  // namespace fourfold::test
