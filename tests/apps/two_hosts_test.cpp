// Training across two hosts with a network between them: network namespaces on this machine.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

TEST(TwoHosts, TrainAsOneDoes) {
  const Workspace work;
  const std::vector<std::string> both = {"--grid", "x=2,data=2"};
  const Outcome one = work.train("one", both);
  ASSERT_EQ(one.status, 0) << one.err;

  std::vector<std::string> command = {TESTBED,  "--hosts", "2",  "--slots",       "2",
                                      "--mbit", "500",     "--", FOURFOLD_PROGRAM};
  for (const std::string& word : work.train_arguments("two", both)) command.push_back(word);
  command.insert(command.end(), {"--trace", work.path("trace.json")});
  const Outcome two = run_program(command);
  if (two.status == 77) GTEST_SKIP() << two.err;
  ASSERT_EQ(two.status, 0) << two.err;

  const json expected = work.json("one.json");
  const json result = work.json("two.json");
  EXPECT_EQ(result["ranks"], 4);
  ASSERT_EQ(result["steps"].size(), expected["steps"].size());
  for (std::size_t i = 0; i < expected["steps"].size(); ++i) {
    for (const char* key : {"loss", "grad_norm"}) {
      EXPECT_NEAR(result["steps"][i][key].get<double>(), expected["steps"][i][key].get<double>(),
                  1e-10)
          << key << " of step " << i + 1;
    }
  }
  for (const char* file : {"config.toml", "log.txt", "metrics.jsonl", "model.safetensors",
                           "config.json", "tokenizer.model"}) {
    EXPECT_TRUE(work.has(std::string("two/") + file)) << file;
  }
  // x is inside of a host, data between them.
  const std::string trace = work.read("trace.json");
  for (const char* rank : {"rank 0 (host n0) x=0 data=0", "rank 1 (host n0) x=1 data=0",
                           "rank 2 (host n1) x=0 data=1", "rank 3 (host n1) x=1 data=1"}) {
    EXPECT_NE(trace.find(rank), std::string::npos) << rank;
  }
}

}  // namespace
}  // namespace fourfold::test
