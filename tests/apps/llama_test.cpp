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

/// A Llama whose tokenizer says that a text begins with <|begin_of_text|>.
TEST(Sample, BeginsAndEndsTextsAsTheFolderSays) {
  const Workspace work;
  std::string config = work.read("gpt.toml");
  config.replace(config.find("dropout = 0.1"), 13, "kind = \"llama\"\nkv_heads = 2");
  config.replace(config.find("vocab = 300"), 11, "vocab = 2007");
  work.write("gpt.toml", config);
  const auto train = [&](const std::string& name) {
    const std::string tokenizer = concat("data.tokenizer_from=", GOLDEN_FOLDER, "/", name);
    const Outcome trained = work.train(name, {"--set", tokenizer});
    ASSERT_EQ(trained.status, 0) << trained.err;
  };
  const auto tokens_of = [&](const std::string& run, const std::string& prompt) {
    const Outcome outcome =
        Workspace::fourfold({"sample", work.path(run), "--prompt", prompt, "--tokens", "3",
                             "--temperature", "0", "--json", work.path("sample.json")});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return work.json("sample.json")["tokens"][0].get<std::vector<int>>();
  };
  ASSERT_NO_FATAL_FAILURE(train("llama3"));
  for (const char* file : {"llama3/config.json", "llama3/generation_config.json"}) {
    EXPECT_EQ(work.json(file)["bos_token_id"], 2000) << file;
    EXPECT_EQ(work.json(file)["eos_token_id"], 2001) << file;
  }
  EXPECT_EQ(tokens_of("llama3", "")[0], 2000);
  const std::vector<int> tokens = tokens_of("llama3", "The");
  ASSERT_GE(tokens.size(), 2U + 3U);
  EXPECT_EQ(tokens[0], 2000);
  const std::vector<int> start(tokens.begin(), tokens.end() - 3);
  work.write("llama3/generation_config.json",
             concat("{\"eos_token_id\": [2001, ", tokens[start.size()], "]}"));
  EXPECT_EQ(tokens_of("llama3", "The"), start);

  // GPT-2's tokenizer puts nothing before a text; a text without a prompt follows an end of text.
  ASSERT_NO_FATAL_FAILURE(train("gpt2"));
  EXPECT_EQ(work.json("gpt2/generation_config.json")["bos_token_id"], 0);
  EXPECT_EQ(tokens_of("gpt2", "")[0], 0);
  EXPECT_NE(tokens_of("gpt2", "The")[0], 0);
}

}  // namespace
}  // namespace fourfold::test
