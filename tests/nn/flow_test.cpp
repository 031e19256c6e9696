// Flows take turns, await each other, and hand on results and exceptions.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/flow.hpp"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using nn::Flow;
using nn::Turn;

Flow<int> inner(std::string& log, char name) {
  log += name;
  co_await Turn{};
  log += name;
  co_return 1;
}

Flow<int> outer(std::string& log, char name) {
  int sum = co_await inner(log, name);
  co_await Turn{false};  // nothing to wait for
  log += static_cast<char>(name - 'a' + 'A');
  sum += co_await inner(log, name);
  co_return sum;
}

TEST(Flow, OneByItselfRunsThrough) {
  std::string log;
  EXPECT_EQ(nn::run(outer(log, 'a')), 2);
  EXPECT_EQ(log, "aaAaa");
}

TEST(Flow, TwoTakeTurnsOneBehindTheOther) {
  std::string log;
  std::vector<Flow<int>> flows;
  flows.push_back(outer(log, 'a'));
  flows.push_back(outer(log, 'b'));
  EXPECT_EQ(nn::interleave(std::move(flows)), (std::vector<int>{2, 2}));
  EXPECT_EQ(log, "aaAababBbb");
}

TEST(Flow, OfDifferentLengths) {
  std::string log;
  std::vector<Flow<int>> flows;
  flows.push_back(inner(log, 'a'));
  flows.push_back(outer(log, 'b'));
  EXPECT_EQ(nn::interleave(std::move(flows)), (std::vector<int>{1, 2}));
  EXPECT_EQ(log, "aabbBbb");
}

/// Counts those that are alive.
struct Alive {
  explicit Alive(int& counter) : count(&counter) { ++*count; }
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;
  ~Alive() { --*count; }
  int* count;
};

Flow<int> failing(int& alive) {
  const Alive here(alive);
  co_await Turn{};
  throw std::runtime_error("failed");
}

Flow<int> around(int& alive) {
  const Alive here(alive);
  co_return co_await failing(alive);
}

TEST(Flow, AnExceptionReachesWhoRunsItAndNothingIsLeft) {
  int alive = 0;
  std::string log;
  {
    std::vector<Flow<int>> flows;
    flows.push_back(around(alive));
    flows.push_back(outer(log, 'b'));
    EXPECT_THROW(nn::interleave(std::move(flows)), std::runtime_error);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(log, "");  // the other one did not begin
}

}  // namespace
}  // namespace fourfold::test
