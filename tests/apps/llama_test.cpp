// A Llama with the real program: trained, saved, read again and sampled.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/apps/workspace.hpp"

namespace fourfold::test {
namespace {

TEST(Train, ALlamaIsTrainedSavedReadAgainAndSampled) {
  const Workspace work;
  const std::string of_gpt = work.read("gpt.toml");
  std::string of_llama = of_gpt;
  of_llama.replace(of_llama.find("dropout = 0.1"), 13, "kind = \"llama\"\nkv_heads = 2");
  work.write("gpt.toml", of_llama);
  const Outcome alone = work.train("alone");
  ASSERT_EQ(alone.status, 0) << alone.err;
  const Outcome four = work.train("four", {"--grid", "x=2,y=2"});
  ASSERT_EQ(four.status, 0) << four.err;
  const double expected = work.json("alone.json")["steps"].back()["loss"];
  EXPECT_NEAR(work.json("four.json")["steps"].back()["loss"], expected, 1e-8 * expected);
  const auto sample = [&](const char* run, const char* ranks) {
    return Workspace::fourfold({"sample", work.path(run), "--prompt", "The", "--tokens", "12",
                                "--temperature", "0", "--ranks", ranks});
  };
  const Outcome text = sample("alone", "1");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(sample("four", "2").out, text.out);
  const std::string from = "train.init_from=" + work.path("four");
  const Outcome more = work.train("more", {"--set", from, "--grid", "z=2"});
  EXPECT_EQ(more.status, 0) << more.err;
  work.write("gpt.toml", of_gpt);
  const Outcome other = work.train("other", {"--set", from});
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("has kind = llama, not gpt: set model.kind to that"), std::string::npos)
      << other.err;
}

}  // namespace
}  // namespace fourfold::test
