// Errors: what they carry, how they are described, and the checks that throw them.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/error.hpp"

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/base/check.hpp"

namespace fourfold::test {
namespace {

using testing::Test;

/// Puts the thread's rank back, so that no test sees another's.
class ErrorTest : public Test {
 protected:
  void TearDown() override { set_this_rank(-1); }
};

/// What `body` throws, as a copy; fails when it throws nothing or something else.
template <class Expected, class Body>
Expected thrown_by(const Body& body) {
  try {
    body();
  } catch (const Expected& error) {
    return error;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another class of error: " << error.what();
    return Expected("");
  }
  ADD_FAILURE() << "nothing was thrown";
  return Expected("");
}

template <class E>
void expect_place_of_the_throw() {
  const int line = __LINE__ + 1;
  const E error("text");
  EXPECT_EQ(error.where().line, line);
  EXPECT_EQ(std::string(error.where().file), __FILE__);
  EXPECT_STREQ(error.what(), "text");
}

TEST_F(ErrorTest, CarriesThePlaceOfTheThrow) {
  expect_place_of_the_throw<Error>();
  expect_place_of_the_throw<ConfigError>();
  expect_place_of_the_throw<CommError>();
  expect_place_of_the_throw<IoError>();
  expect_place_of_the_throw<InvariantError>();
}

TEST_F(ErrorTest, CarriesAPlaceThatIsGiven) {
  const IoError error("text", Where{"elsewhere.cpp", 7});
  EXPECT_STREQ(error.where().file, "elsewhere.cpp");
  EXPECT_EQ(error.where().line, 7);
}

TEST_F(ErrorTest, CarriesTheRankAtTheThrow) {
  EXPECT_EQ(this_rank(), -1);
  EXPECT_EQ(Error("before").rank(), -1);
  set_this_rank(3);
  const CommError error("text");
  set_this_rank(4);
  EXPECT_EQ(error.rank(), 3);
  EXPECT_EQ(Error("after").rank(), 4);
}

TEST_F(ErrorTest, RankIsTheThreadsOwn) {
  set_this_rank(5);
  int at_start = 0;
  int of_error = 0;
  std::thread([&] {
    at_start = this_rank();
    set_this_rank(6);
    of_error = Error("text").rank();
  }).join();
  EXPECT_EQ(at_start, -1);
  EXPECT_EQ(of_error, 6);
  EXPECT_EQ(this_rank(), 5);
}

TEST_F(ErrorTest, ExitStatusIsTwoForBadInputOnly) {
  EXPECT_EQ(ConfigError("").exit_status(), 2);
  EXPECT_EQ(Error("").exit_status(), 1);
  EXPECT_EQ(CommError("").exit_status(), 1);
  EXPECT_EQ(IoError("").exit_status(), 1);
  EXPECT_EQ(InvariantError("").exit_status(), 1);
  const ConfigError config("");
  const Error& base = config;
  EXPECT_EQ(base.exit_status(), 2);
}

TEST_F(ErrorTest, DescribeNamesTheRankOfTheErrorNotOfTheReader) {
  EXPECT_EQ(describe(ConfigError("bad width")), "bad width");
  set_this_rank(2);
  const CommError error("lost");
  set_this_rank(9);
  EXPECT_EQ(describe(error), "rank 2: lost");
}

TEST_F(ErrorTest, DescribeTellsThePlaceOfABug) {
  set_this_rank(0);
  EXPECT_EQ(describe(InvariantError("odd", Where{"a/b.cpp", 12})), "rank 0: odd (a/b.cpp:12)");
  EXPECT_EQ(describe(IoError("odd", Where{"a/b.cpp", 12})), "rank 0: odd");
}

TEST_F(ErrorTest, DescribeTakesAnyException) {
  EXPECT_EQ(describe(std::runtime_error("from elsewhere")), "from elsewhere");
  set_this_rank(1);
  EXPECT_EQ(describe(std::runtime_error("from elsewhere")), "rank 1: from elsewhere");
}

const std::string kStack =
    "\nException raised from alloc_cpu at ../c10/core/impl/alloc_cpu.cpp:66 (most recent call "
    "first):\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x6b\nframe #1: "
    "...\n";

TEST_F(ErrorTest, DescribeLeavesAStackOut) {
  set_this_rank(3);
  const std::runtime_error error("mat1 and mat2 shapes cannot be\n multiplied (2x3 and 4x5)" +
                                 kStack);
  EXPECT_EQ(describe(error), "rank 3: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
  EXPECT_NE(details(error).find("frame #1"), std::string::npos);
  EXPECT_EQ(details(Error("one line")), "");
}

TEST_F(ErrorTest, DescribeCallsMemoryThatRanOutThat) {
  set_this_rank(3);
  const std::runtime_error error(
      "[enforce fail at alloc_cpu.cpp:66] . DefaultCPUAllocator: can't allocate memory: you tried "
      "to allocate 12884901888 bytes. Error code 12 (Cannot allocate memory)" +
      kStack);
  EXPECT_EQ(describe(error), "rank 3: out of memory: a tensor of 12.0 GiB could not be allocated");
  EXPECT_EQ(describe(std::bad_alloc()), "rank 3: out of memory");
}

TEST(Check, PassesInSilence) {
  EXPECT_NO_THROW(FOURFOLD_CHECK(1 + 1 == 2));
  EXPECT_NO_THROW(FOURFOLD_CHECK(true, "never built"));
  EXPECT_NO_THROW(FOURFOLD_CHECK_EQ(1 + 1, 2, "never built"));
}

TEST(Check, SaysTheConditionTheRestAndThePlace) {
  const int size = 3;
  int line = 0;
  const auto error = thrown_by<InvariantError>([&] {
    line = __LINE__ + 1;
    FOURFOLD_CHECK(size > 4, "size is ", size, '!');
  });
  EXPECT_EQ(std::string(error.what()), "check failed: size > 4 size is 3!");
  EXPECT_EQ(error.where().line, line);
  EXPECT_EQ(std::string(error.where().file), __FILE__);
  const auto bare = thrown_by<InvariantError>([&] { FOURFOLD_CHECK(size > 4); });
  EXPECT_EQ(trim(bare.what()), "check failed: size > 4");
}

TEST(Check, EqualityPrintsBothValues) {
  const int left = 17;
  const std::int64_t right = 71;
  const auto error = thrown_by<InvariantError>([&] { FOURFOLD_CHECK_EQ(left, right); });
  EXPECT_EQ(std::string(error.what()), "check failed: left == right: 17 against 71");
  const auto more = thrown_by<InvariantError>(
      [&] { FOURFOLD_CHECK_EQ(std::string("a"), std::string("b"), "in file ", 5); });
  const std::string text = more.what();
  EXPECT_NE(text.find("a against b in file 5"), std::string::npos) << text;
}

TEST(Check, EvaluatesItsArgumentsOnce) {
  int calls = 0;
  const auto next = [&] { return ++calls; };
  FOURFOLD_CHECK_EQ(next(), 1);
  FOURFOLD_CHECK(next() == 2);
  EXPECT_EQ(calls, 2);
}

TEST(Check, DcheckIsForBuildsWithoutNdebug) {
  int calls = 0;
  const auto fails = [&] { return ++calls < 0; };
#ifdef NDEBUG
  EXPECT_NO_THROW(FOURFOLD_DCHECK(fails(), "slow"));
  EXPECT_EQ(calls, 0);
  static_cast<void>(fails);
#else
  EXPECT_THROW(FOURFOLD_DCHECK(fails(), "slow"), InvariantError);
  EXPECT_EQ(calls, 1);
#endif
}

}  // namespace
}  // namespace fourfold::test
