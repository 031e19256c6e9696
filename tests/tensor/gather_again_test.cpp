// In which order inputs are brought together again, on ones that write it down.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/gather_again.hpp"

#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using tensor::GatherAgain;

class Noted final : public GatherAgain::Input {
 public:
  Noted(char name, std::string& log) : name_(name), log_(&log) {}
  void start() override {
    if (!std::exchange(started_, true)) *log_ += name_;
  }

 private:
  char name_;
  std::string* log_;
  bool started_ = false;
};

class GatherAgainTest : public testing::Test {
 protected:
  /// Passes a, b, c and d, and reaches those of `order`; each is an upper-case letter in the log,
  /// behind what it started.
  std::string run(GatherAgain& again, const std::string& order, const std::string& gone = "") {
    log_.clear();
    std::map<char, std::shared_ptr<Noted>> inputs;
    for (const char name : std::string("abcd")) {
      inputs[name] = std::make_shared<Noted>(name, log_);
      again.passed(inputs[name]);
    }
    for (const char name : gone) inputs.erase(name);
    for (const char name : order) {
      again.reached(*inputs.at(name));
      log_ += static_cast<char>(name - 'a' + 'A');
    }
    return log_;
  }

  std::string log_;
};

TEST_F(GatherAgainTest, StartsOneAhead) {
  GatherAgain again(true);
  EXPECT_EQ(run(again, "dcba"), "dcDbCaBA");
  EXPECT_EQ(run(again, "dcba"), "dcDbCaBA") << "nothing is left of the pass before";
}

TEST_F(GatherAgainTest, StartsEachAtItsTurnWhenSwitchedOff) {
  GatherAgain again(false);
  EXPECT_EQ(run(again, "dcba"), "dDcCbBaA");
}

TEST_F(GatherAgainTest, AnotherOrderIsOnlyLessAhead) {
  GatherAgain again(true);
  EXPECT_EQ(run(again, "cdab"), "cbCdDaAB");
}

TEST_F(GatherAgainTest, AnOlderGraphIsReachedFirst) {
  GatherAgain again(true);
  EXPECT_EQ(run(again, "badc"), "baBAdcDC");
}

TEST_F(GatherAgainTest, ForgetsWhatIsGone) {
  GatherAgain again(true);
  EXPECT_EQ(run(again, "da", "bc"), "daDA");
  run(again, "");
  EXPECT_EQ(run(again, "dcba"), "dcDbCaBA") << "a pass without a backward pass came before";
}

}  // namespace
}  // namespace fourfold::test
