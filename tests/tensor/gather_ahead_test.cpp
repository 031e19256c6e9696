// Which weights are brought together when, on units that write down what happens to them.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/gather_ahead.hpp"

#include <deque>

#include <gtest/gtest.h>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/backlog.hpp"

namespace fourfold::test {
namespace {

using tensor::GatherAhead;
using tensor::GatherOrder;
using tensor::GatherPlan;

class Unit final : public tensor::Gatherable {
 public:
  Unit(std::string name, std::int64_t bytes, std::string& log)
      : name_(std::move(name)), bytes_(bytes), log_(&log) {}

  std::string gather_name() const override { return name_; }
  bool is_whole() const override { return whole; }
  std::int64_t gathered_bytes() const override { return bytes_; }
  bool arriving() const override { return late; }
  tensor::Gathered start_gather() const override {
    *log_ += name_;
    tensor::Gathered gathered;
    gathered.tensors = {at::zeros({1})};
    return gathered;
  }

  bool whole = false;
  bool late = false;

 private:
  std::string name_;
  std::int64_t bytes_;
  std::string* log_;
};

/// Units a, b, c, ... of 10 bytes each.
class GatherAheadTest : public testing::Test {
 protected:
  GatherAheadTest() {
    for (const char name : std::string("abcdefgh"))
      units_.emplace_back(std::string(1, name), 10, log_);
  }

  Unit& unit(char name) { return units_[static_cast<std::size_t>(name - 'a')]; }
  GatherOrder order(const std::string& names) {
    GatherOrder all;
    for (const char name : names) all.push_back(&unit(name));
    return all;
  }
  /// Takes the units in turn; each take is an upper-case letter in the log, behind what it started.
  void take_all(GatherAhead& ahead, const std::string& names) {
    for (const char name : names) {
      ahead.take(unit(name));
      log_ += static_cast<char>(name - 'a' + 'A');
    }
  }
  std::string run(GatherAhead& ahead, const std::string& names, std::int64_t keep) {
    log_.clear();
    const GatherPlan plan(order(names), keep);
    ahead.begin_pass(plan, false);
    take_all(ahead, names);
    ahead.end_pass();
    return log_;
  }

  std::string log_;
  std::deque<Unit> units_;
};

TEST_F(GatherAheadTest, WithoutAPlanEachIsBroughtTogetherAtItsUse) {
  GatherAhead ahead(true, 100);
  take_all(ahead, "abab");
  EXPECT_EQ(log_, "aAbBaAbB");
}

TEST_F(GatherAheadTest, WithoutLookingAheadEachIsStartedAtItsUse) {
  GatherAhead ahead(false, 100);
  EXPECT_EQ(run(ahead, "abcd", 0), "aAbBcCdD");
}

TEST_F(GatherAheadTest, StaysWithinTheWindow) {
  GatherAhead two(true, 20);
  EXPECT_EQ(run(two, "abcdef", 0), "abcAdBeCfDEF");
  GatherAhead tiny(true, 1);  // one is always allowed
  EXPECT_EQ(run(tiny, "abcd", 0), "abAcBdCD");
}

TEST_F(GatherAheadTest, WhatIsArrivingIsTakenOneAtATime) {
  for (const char name : std::string("abcd")) unit(name).late = true;
  GatherAhead ahead(true, 1000);
  EXPECT_EQ(run(ahead, "abcdefgh", 0), "abAcBdefghCDEFGH");
}

TEST_F(GatherAheadTest, UsesInARowShareIt) {
  GatherAhead ahead(false, 100);
  EXPECT_EQ(run(ahead, "aabbccbb", 0), "aAAbBBcCCBB");  // b comes again behind one other
  EXPECT_EQ(run(ahead, "abca", 0), "aAbBcCA");          // a behind two
  EXPECT_EQ(run(ahead, "abbcca", 0), "aAbBBcCCA");      // uses in a row are one turn
  EXPECT_EQ(run(ahead, "abcba", 0), "aAbBcCBaA");       // a behind three
}

/// The second half of the batch is a turn behind: what it uses is still there.
TEST_F(GatherAheadTest, HalvesShareIt) {
  GatherAhead ahead(false, 100);
  const auto run_halves = [&](const std::string& names) {
    log_.clear();
    const GatherPlan plan(order(names), 0, true);
    ahead.begin_pass(plan, false);
    take_all(ahead, names);
    ahead.end_pass();
    return log_;
  };
  EXPECT_EQ(run_halves("abcadbcede"), "aAbBcCAdDBCeEDE");  // each behind up to three
  EXPECT_EQ(run_halves("aabcdaa"), "aAAbBcCdDaAA");        // two passes of both halves
  EXPECT_EQ(run_halves("abcdea"), "aAbBcCdDeEaA");         // behind four
}

TEST_F(GatherAheadTest, KeepsTheShortestStaysThatFit) {
  GatherAhead ahead(false, 100);
  const std::string there_and_back = "abcdeedcba";
  EXPECT_EQ(run(ahead, there_and_back, 0), "aAbBcCdDeEEDcCbBaA");
  EXPECT_EQ(run(ahead, there_and_back, 10), "aAbBcCdDeEEDCbBaA");
  EXPECT_EQ(run(ahead, there_and_back, 29), "aAbBcCdDeEEDCBaA");
  EXPECT_EQ(run(ahead, there_and_back, 30), "aAbBcCdDeEEDCBA");
}

/// The limit is on what is kept at a time: these stays do not meet.
TEST_F(GatherAheadTest, KeepsSeveralThatDoNotMeet) {
  GatherAhead ahead(false, 100);
  EXPECT_EQ(run(ahead, "abcdaefghe", 10), "aAbBcCdDAeEfFgGhHE");
}

TEST_F(GatherAheadTest, StartsTheNextPassAtTheEndOfOne) {
  GatherAhead ahead(true, 10);
  const GatherPlan plan(order("abc"), 0);
  ahead.begin_pass(plan, true);
  take_all(ahead, "abc");
  ahead.end_pass();
  ahead.begin_pass(plan, false);
  take_all(ahead, "abc");
  ahead.end_pass();
  EXPECT_EQ(log_, "abAcBaCbAcBC");
}

/// With a window larger than the model, the next pass's may be started before this pass has used
/// its own.
TEST_F(GatherAheadTest, PassesDoNotMixUpTheirUnits) {
  GatherAhead ahead(true, 1000);
  const GatherPlan plan(order("abcda"), 0);
  ahead.begin_pass(plan, true);
  take_all(ahead, "abcda");
  ahead.end_pass();
  ahead.begin_pass(plan, false);
  take_all(ahead, "abcda");
  ahead.end_pass();
  EXPECT_EQ(log_, "abcdaabcdaABCDAABCDA");
}

TEST_F(GatherAheadTest, ThePlanEndsWithItsPass) {
  GatherAhead ahead(false, 10);
  const GatherPlan plan(order("ab"), 0);
  const GatherPlan other(order("ba"), 0);
  ahead.begin_pass(plan, true);
  EXPECT_THROW(ahead.begin_pass(other, false), InvariantError);
  take_all(ahead, "ab");
  ahead.end_pass();
  EXPECT_THROW(ahead.begin_pass(other, false), InvariantError) << "the same pass was to follow";
  ahead.begin_pass(plan, false);
  take_all(ahead, "ab");
  ahead.end_pass();
  take_all(ahead, "ba");  // any order, without a plan
  ahead.begin_pass(other, false);
  take_all(ahead, "ba");
  ahead.end_pass();
}

TEST_F(GatherAheadTest, WholeUnitsAreNoPartOfThePlan) {
  unit('b').whole = true;
  GatherAhead ahead(false, 10);
  std::vector<std::string> names;
  ahead.learn(&names);
  const GatherPlan plan(order("ac"), 0);
  ahead.begin_pass(plan, false);
  take_all(ahead, "abc");
  ahead.end_pass();
  EXPECT_EQ(names, (std::vector<std::string>{"a", "c"}));
}

TEST_F(GatherAheadTest, AnotherOrderIsAnError) {
  GatherAhead ahead(true, 100);
  const GatherPlan plan(order("abc"), 0);
  ahead.begin_pass(plan, false);
  ahead.take(unit('a'));
  EXPECT_THROW(ahead.take(unit('c')), InvariantError);
  EXPECT_THROW(ahead.end_pass(), InvariantError);
}

TEST(Backlog, FinishesTheOldestWhenItIsFull) {
  tensor::Backlog backlog(25);
  std::string log;
  for (const char name : std::string("abcd")) {
    backlog.add(10, [&log, name] { log += name; });
    log += '|';
  }
  EXPECT_EQ(log, "||a|b|");
  backlog.drain();
  EXPECT_EQ(log, "||a|b|cd");
}

TEST(Backlog, HoldsAsMuchAsItsWindow) {
  tensor::Backlog backlog(20);
  std::string log;
  for (const char name : std::string("abc")) backlog.add(10, [&log, name] { log += name; });
  EXPECT_EQ(log, "a");
}

/// What has failed is not finished again.
TEST(Backlog, GoesOnAfterAnError) {
  tensor::Backlog backlog(100);
  std::string log;
  backlog.add(60, [] { throw CommError("lost"); });
  backlog.add(10, [&log] { log += 'b'; });
  EXPECT_THROW(backlog.drain(), CommError);
  EXPECT_EQ(log, "");
  backlog.add(50, [&log] { log += 'c'; });
  EXPECT_EQ(log, "") << "60 bytes are no longer held";
  backlog.drain();
  EXPECT_EQ(log, "bc");
}

TEST(Backlog, HoldsOneOfAnySize) {
  tensor::Backlog backlog(1);
  std::string log;
  backlog.add(100, [&log] { log += 'a'; });
  EXPECT_EQ(log, "");
  backlog.add(100, [&log] { log += 'b'; });
  EXPECT_EQ(log, "a");
}

TEST(Backlog, DrainsWhatFinishingAdds) {
  tensor::Backlog backlog(100);
  std::string log;
  backlog.add(10, [&] {
    log += 'a';
    backlog.add(10, [&log] { log += 'b'; });
  });
  backlog.drain();
  EXPECT_EQ(log, "ab");
}

}  // namespace
}  // namespace fourfold::test
