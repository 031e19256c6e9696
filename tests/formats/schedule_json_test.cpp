// Schedules as JSON: what is written reads back equal, and everything else is refused in one line.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/schedule_json.hpp"

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using schedule::Collective;
using schedule::DType;
using schedule::Op;
using schedule::Schedule;

Schedule read(std::string_view text) {
  return formats::parse_schedule(text, "plan.json");
}

void expect_round_trip(const Schedule& schedule) {
  const std::string text = formats::schedule_json(schedule);
  EXPECT_EQ(read(text), schedule) << text;
  EXPECT_EQ(read("{\"grid\": \"x=2\", \"schedule\": " + text + "}"), schedule);
}

TEST(ScheduleJson, ComputeOfEveryKindReadsBackEqual) {
  Schedule schedule;
  for (const schedule::Work work : schedule::kAllWorks) {
    for (const schedule::Phase phase : schedule::kAllPhases) {
      for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
        schedule.compute({"some work", {work, dtype, {}, Flops(0.1), Bytes(1)}, phase});
      }
    }
  }
  schedule.compute({"linear dW", schedule::product_of({4096, 512, 2048}, DType::kBF16, Bytes(7)),
                    schedule::Phase::kBackward, "h.3.mlp.c_fc"});
  schedule.compute({"attention cast", {.bytes = Bytes(6), .widened = true}});
  schedule.compute({"large", {.flops = Flops(1e25), .bytes = Bytes(std::int64_t{1} << 62)}});
  schedule.compute({"a \"quoted\" name\n", {}, {}, "h.\xc3\xa4"});
  expect_round_trip(schedule);
}

TEST(ScheduleJson, OperationsOfEveryKindReadBackEqual) {
  Schedule schedule;
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast,
                      Op::kReduce, Op::kSend, Op::kRecv, Op::kBarrier}) {
    Collective c{.op = op};
    if (op != Op::kBarrier) c.dtype = DType::kBF16, c.count = std::int64_t{1} << 40;
    if (op == Op::kReduce || op == Op::kAllReduce) c.reduce = schedule::ReduceOp::kMax;
    if (op == Op::kBroadcast || op == Op::kReduce || op == Op::kSend || op == Op::kRecv) c.root = 3;
    schedule.issue(c, {Axis::kY, Axis::kX}, 4, 1, 17);
  }
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kI64}) {
    schedule.issue({.op = Op::kAllGather,
                    .dtype = dtype,
                    .priority = schedule::Priority::kBackground,
                    .count = 8},
                   Axis::kData, 2, 0, 3, schedule::Reach::kNetwork);
  }
  schedule.issue({}, {}, 1, 0, 0);
  schedule.wait(3);
  schedule.wait(-2);
  expect_round_trip(schedule);
  expect_round_trip({});
}

TEST(ScheduleJson, HasALineForEachStep) {
  Schedule schedule;
  schedule.compute({"linear", schedule::product_of({2, 3, 4}, DType::kF32, Bytes(104)), {}, "l"});
  schedule.issue({.op = Op::kReduceScatter, .count = 8}, Axis::kX, 2, 1, 5);
  schedule.wait(0);
  schedule.compute({"sum", {.flops = Flops(1), .bytes = Bytes(2)}});
  EXPECT_EQ(formats::schedule_json(schedule),
            "[\n"
            R"({"compute":"linear","layer":"l","phase":"forward","work":"product","dtype":"f32",)"
            R"("extent":[2,3,4],"flops":48.0,"bytes":104})"
            ",\n"
            R"({"issue":"reduce_scatter","dtype":"f32","count":8,"reduce":"sum",)"
            R"("priority":"urgent","axes":["x"],"group_size":2,"index":1,"lane":5,)"
            R"("reach":"host"})"
            ",\n"
            R"({"wait":0})"
            ",\n"
            R"({"compute":"sum","phase":"forward","work":"memory","dtype":"f32","flops":1.0,)"
            R"("bytes":2})"
            "\n]");
}

constexpr const char* kBarrier =
    R"({"issue":"barrier","priority":"urgent","axes":[],"group_size":2,"index":0,"lane":0,)"
    R"("reach":"host"})";

/// A step with one member replaced.
std::string changed(std::string step, std::string_view from, std::string_view to) {
  const std::size_t at = step.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return "[" + step.replace(at, from.size(), to) + "]";
}

TEST(ScheduleJson, RefusesEverythingElseInOneLine) {
  const std::string compute =
      R"({"compute":"a","phase":"forward","work":"memory","dtype":"f32","flops":1,"bytes":2})";
  const std::string gather =
      R"({"issue":"all_gather","dtype":"f32","count":8,"priority":"urgent","axes":["x"],)"
      R"("group_size":2,"index":1,"lane":5,"reach":"host"})";
  ASSERT_NO_THROW(read("[" + compute + "," + gather + "," + kBarrier + "]"));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "it is no JSON"},
      {"[", "it is no JSON"},
      {"{}", "no list of the steps"},
      {R"({"schedule":3})", "no list of the steps"},
      {"[3]", "step 0 of its schedule is no object"},
      {"[{}]", "step 0 of its schedule is neither"},
      {"[" + compute + R"(,{"wait":"x"}])", "step 1 of its schedule has 'wait'"},
      {R"([{"wait":0}])", "'wait' that is no whole number"},
      {concat("[", kBarrier, R"(,{"wait":-2}])"), "'wait' that is no whole number of at least -1"},
      {concat(R"([{"wait":0},)", kBarrier, "]"), "'wait' that is no whole number"},
      {R"([{"wait":0.5}])", "'wait'"},
      {R"([{"wait":99999999999999999999}])", "'wait'"},
      {concat("[", kBarrier, R"(,{"wait":18446744073709551615}])"), "'wait'"},  // 2^64 - 1
      {changed(compute, "\"a\"", "7"), "'compute' that is no text"},
      {changed(compute, "\"memory\"", "\"rest\""), "'work' 'rest'; it can be product, attention"},
      {changed(compute, "forward", "up"), "'phase' 'up'; it can be forward, recompute"},
      {changed(compute, "f32", "f16"), "'dtype' 'f16'"},
      {changed(compute, "\"flops\":1", "\"flops\":-1"), "'flops'"},
      {changed(compute, "\"flops\":1,", ""), "has no 'flops'"},
      {changed(compute, "\"bytes\":2", "\"bytes\":1.5"), "'bytes'"},
      {changed(compute, "\"flops\"", "\"extent\":[1,2],\"flops\""), "'extent'"},
      {changed(compute, "\"flops\"", "\"extent\":[1,2,-3],\"flops\""), "'extent'"},
      {changed(gather, "all_gather", "gather"), "'issue' 'gather'"},
      {changed(gather, "\"count\":8", "\"count\":-8"), "'count'"},
      {changed(gather, "\"count\":8", "\"count\":9223372036854775807"), "'count'"},
      {changed(gather, "[\"x\"]", "\"x\""), "'axes' that is no list"},
      {changed(gather, "[\"x\"]", "[\"w\"]"), "'w' is not an axis"},
      {changed(gather, "[\"x\"]", "[3]"), "'axes' that is no list of names"},
      {changed(gather, "\"lane\":5", "\"lane\":-1"), "'lane'"},
      {changed(gather, "[\"x\"]", "[\"x\",\"x\"]"), "x twice"},
      {changed(gather, "\"index\":1", "\"index\":2"), "'index'"},
      {changed(gather, "\"group_size\":2", "\"group_size\":0"), "'group_size'"},
      {changed(gather, "\"group_size\":2", "\"group_size\":3000000000"), "'group_size'"},
      {changed(gather, "all_gather", "broadcast"), "has no 'root'"},
      {changed(gather, "\"all_gather\"", "\"broadcast\",\"root\":2"), "'root'"},
      {changed(gather, "all_gather", "all_reduce"), "has no 'reduce'"},
      {changed(gather, "urgent", "low"), "'priority' 'low'"},
      {changed(gather, "\"host\"", "\"far\""), "'reach' 'far'"}};
  for (const auto& [text, expected] : cases) {
    try {
      read(text);
      ADD_FAILURE() << text;
    } catch (const ConfigError& error) {
      const std::string what = error.what();
      EXPECT_TRUE(what.starts_with("plan.json cannot be used: ")) << what;
      EXPECT_NE(what.find(expected), std::string::npos) << what << " lacks " << expected;
      EXPECT_EQ(what.find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace fourfold::test
