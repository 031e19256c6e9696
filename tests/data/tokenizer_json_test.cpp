// tokenizer.json of byte-level BPE: what is read, what is refused and what is saved, with results
// worked out by hand.
// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "tests/data/small_bpe.hpp"
#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::load_tokenizer;
using data::Tokenizer;
using nlohmann::json;

json split(const std::string& pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

/// Llama 3's way: Splits, then the bytes.
json sequence(const std::vector<std::string>& patterns) {
  json steps = json::array();
  for (const std::string& pattern : patterns) steps.push_back(split(pattern));
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

json template_processing() {
  return {{"type", "TemplateProcessing"},
          {"single", {{{"SpecialToken", {{"id", "<b>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
          {"special_tokens", {{"<b>", {{"id", "<b>"}, {"ids", {kEnd}}}}}}};
}

class TokenizersJson : public InFolder {
 protected:
  using Change = std::function<void(json&)>;

  std::unique_ptr<Tokenizer> load(const Change& change) const {
    json parsed = tokenizer_json();
    change(parsed);
    write("tokenizer.json", parsed.dump());
    return load_tokenizer(path());
  }
  std::string why(const Change& change) const {
    return refusal([&] { load(change); });
  }
  /// What comes behind the file's name.
  std::string refused(const Change& change) const {
    const std::string text = why(change);
    const std::string begin = path("tokenizer.json") + ": ";
    return text.starts_with(begin) ? text.substr(begin.size()) : text;
  }
};

TEST_F(TokenizersJson, Reads) {
  expect_usual(*load([](json&) {}));
  expect_usual(*load([](json& j) {
    j["model"]["merges"] = kMerges;
    ASSERT_TRUE(j["model"]["merges"][0].is_array());
  }));
  expect_usual(*load([](json& j) { j["model"]["vocab"]["<|endoftext|>"] = kEnd; }));
  expect_usual(*load([](json& j) {
    j["model"].update({{"dropout", nullptr},
                       {"unk_token", "<|endoftext|>"},
                       {"continuing_subword_prefix", ""},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false}});
    j["pre_tokenizer"].update({{"trim_offsets", true}, {"use_regex", true}});
    j.update({{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}});
  }));
  expect_usual(*load([](json& j) {
    j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {j["pre_tokenizer"]}}};
  }));
}

TEST_F(TokenizersJson, AddedTokensAreFoundFirst) {
  const auto tokenizer = load([](json& j) {
    j["added_tokens"].push_back({{"id", kAa}, {"content", "aa"}, {"special", false}});
    j["added_tokens"].push_back({{"id", kEnd + 1}, {"content", "<a b>"}, {"special", true}});
    j["added_tokens"].push_back({{"id", kEnd + 2}, {"content", "<a b>low"}, {"special", true}});
    j["added_tokens"].push_back({{"id", kEnd + 3}, {"content", " "}, {"normalized", false}});
    j["added_tokens"].push_back({{"id", kEnd + 4}, {"content", "x aa"}, {"normalized", true}});
  });
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>a"), (Ids{'a', kEnd, 'a'}));
  EXPECT_EQ(tokenizer->encode("xaay"), (Ids{'x', kAa, 'y'})) << "in the middle of a word";
  EXPECT_EQ(tokenizer->encode("<a b>lo"), (Ids{kEnd + 1, kLo}));
  EXPECT_EQ(tokenizer->encode("<a b>low"), (Ids{kEnd + 2})) << "the longest";
  EXPECT_EQ(tokenizer->encode("<a b"), (Ids{'<', 'a', kEnd + 3, 'b'}));
  EXPECT_EQ(tokenizer->encode("x aa"), (Ids{'x', kEnd + 3, kAa}))
      << "tokens that are not normalized come before those that are";
  EXPECT_EQ(tokenizer->decode(Ids{kEnd + 1, kEnd + 3, 'b'}), "<a b> b");
  const std::string text = "<|endoftext|><|endoftext<a b>low\xff<a b> low";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST_F(TokenizersJson, WordsOfSplits) {
  // Words of letters, then each of them in pieces of two.
  const auto tokenizer = load([](json& j) {
    j["pre_tokenizer"] = sequence({"[a-z]+", "[a-z]{2}"});
  });
  EXPECT_EQ(tokenizer->encode("lower##x"), (Ids{kLo, 'w', 'e', 'r', kHashes, 'x'}));
  const auto whole = load([](json& j) { j["pre_tokenizer"]["use_regex"] = false; });
  EXPECT_EQ(whole->encode("lower low"), (Ids{kLow, kEr, kSpaceLow}));
  EXPECT_EQ(whole->encode("\xff low"), (Ids{0xff, kSpaceLow}));
}

TEST_F(TokenizersJson, WholeWordsComeBeforeMerges) {
  const auto change = [](bool ignore) {
    return [ignore](json& j) {
      j["model"]["ignore_merges"] = ignore;
      j["model"]["merges"] = {"l o", "e r"};
    };
  };
  const auto merged = load(change(false));
  EXPECT_EQ(merged->encode("low"), (Ids{kLo, 'w'}));
  const auto whole = load(change(true));
  EXPECT_EQ(whole->encode("low"), (Ids{kLow}));
  EXPECT_EQ(whole->encode(" low lower"), (Ids{kSpaceLow, ' ', kLo, 'w', kEr}));
}

TEST_F(TokenizersJson, SpaceBeforeText) {
  const auto tokenizer = load([](json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; });
  EXPECT_EQ(tokenizer->encode("low"), (Ids{kSpaceLow}));
  EXPECT_EQ(tokenizer->encode(" low"), (Ids{kSpaceLow}));
  EXPECT_EQ(tokenizer->encode("\nlow"), (Ids{' ', '\n', kLow}));
  EXPECT_EQ(tokenizer->encode("low<|endoftext|>low"), (Ids{kSpaceLow, kEnd, kSpaceLow}));
  EXPECT_EQ(tokenizer->encode(""), Ids());
}

TEST_F(TokenizersJson, BeginOfText) {
  EXPECT_EQ(load([](json&) {})->begin_of_text(), -1);
  EXPECT_EQ(load([](json& j) { j["post_processor"] = template_processing(); })->begin_of_text(),
            kEnd);
  EXPECT_EQ(load([](json& j) {
              j["post_processor"] = {
                  {"type", "Sequence"},
                  {"processors", {{{"type", "ByteLevel"}}, template_processing()}}};
            })->begin_of_text(),
            kEnd);
  EXPECT_EQ(load([](json& j) {
              j["post_processor"] = template_processing();
              j["post_processor"]["single"].erase(0);
            })->begin_of_text(),
            -1);
  EXPECT_SAYS(why([](json& j) {
                j["post_processor"] = template_processing();
                j["post_processor"]["special_tokens"]["<b>"]["ids"] = {kEnd + 1};
              }),
              "post_processor.special_tokens: \"<b>\" is not one token of the vocabulary");
}

TEST_F(TokenizersJson, EndOfText) {
  const auto llama = [](json& j) { j["added_tokens"][0]["content"] = "<|end_of_text|>"; };
  const auto none = [](json& j) { j["added_tokens"][0]["content"] = "<end>"; };
  EXPECT_EQ(load(llama)->end_of_text(), kEnd);
  EXPECT_EQ(load(none)->end_of_text(), -1);
  write("special_tokens_map.json", R"({"eos_token": {"content": "<end>"}})");
  EXPECT_EQ(load(none)->end_of_text(), kEnd);
  write("tokenizer_config.json", R"({"eos_token": "Ġlow"})");
  EXPECT_EQ(load(none)->end_of_text(), kSpaceLow);
  write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_SAYS(why(none), "eos_token \"</s>\" of tokenizer_config.json is not in the vocabulary");
}

TEST_F(TokenizersJson, IsSavedUnchanged) {
  const auto first = load([](json& j) {
    j["pre_tokenizer"] = sequence({"[a-z]+"});
    j["unknown"] = "key";
  });
  std::filesystem::create_directory(path("copy"));
  first->save(path("copy"));
  EXPECT_EQ(names("copy"), (std::vector<std::string>{"tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(content("copy/tokenizer.json"), content("tokenizer.json"));
  const json config = json::parse(content("copy/tokenizer_config.json"));
  EXPECT_EQ(config.at("tokenizer_class"), "PreTrainedTokenizerFast");
  EXPECT_EQ(config.at("eos_token"), "<|endoftext|>");
  const auto second = load_tokenizer(path("copy"));
  EXPECT_EQ(second->encode("lower LOW"), first->encode("lower LOW"));
  EXPECT_EQ(second->end_of_text(), kEnd);
  write("tokenizer_config.json", R"( {"eos_token": "er"})");
  write("special_tokens_map.json", " {} ");
  load_tokenizer(path())->save(path("copy"));
  EXPECT_EQ(content("copy/tokenizer_config.json"), R"( {"eos_token": "er"})");
  EXPECT_EQ(content("copy/special_tokens_map.json"), " {} ");
  EXPECT_THROW(first->save(path("no/such")), IoError);
}

TEST_F(TokenizersJson, MayBeNamedAsAFile) {
  load([](json&) {});
  std::filesystem::rename(path("tokenizer.json"), path("mine.json"));
  expect_usual(*load_tokenizer(path("mine.json")));
  EXPECT_SAYS(refusal([&] { load_tokenizer(path("none.json")); }), "does not exist");
  const std::string digest = data::tokenizer_digest(path("mine.json"));
  write("tokenizer_config.json", R"({"eos_token": "er"})");
  EXPECT_NE(data::tokenizer_digest(path("mine.json")), digest);
  EXPECT_EQ(load_tokenizer(path("mine.json"))->end_of_text(), kEr);
}

TEST_F(TokenizersJson, RefusesOtherKinds) {
  EXPECT_EQ(why([](json&) {}), "nothing was thrown");
  EXPECT_EQ(refused([](json& j) { j["model"]["type"] = "Unigram"; }),
            "model.type = \"Unigram\", but only byte-level BPE is supported");
  EXPECT_EQ(refused([](json& j) { j["model"] = 3; }),
            "model.type is missing, but only byte-level BPE is supported");
  EXPECT_EQ(refused([](json& j) {
              j["normalizer"] = {{"type", "NFC"}};
            }),
            "normalizer = an object, but only null is supported");
  EXPECT_EQ(refused([](json& j) { j["decoder"]["type"] = "Metaspace"; }),
            "decoder.type = \"Metaspace\", but only \"ByteLevel\" is supported");
  EXPECT_EQ(refused([](json& j) { j["model"]["byte_fallback"] = true; }),
            "model.byte_fallback = true, but only false is supported");
  EXPECT_EQ(refused([](json& j) { j["model"]["dropout"] = 0.5; }),
            "model.dropout = 0.5, but only 0.0 or null is supported");
  EXPECT_SAYS(refused([](json& j) { j["model"]["continuing_subword_prefix"] = "##"; }),
              "model.continuing_subword_prefix = \"##\", but only");
  EXPECT_SAYS(refused([](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
              "model.end_of_word_suffix = \"</w>\", but only");
  EXPECT_SAYS(refused([](json& j) { j["model"]["ignore_merges"] = 1; }),
              "model.ignore_merges = 1, but only true or false");
  for (const char* name : {"lstrip", "rstrip", "single_word"}) {
    EXPECT_EQ(refused([&](json& j) { j["added_tokens"][0][name] = true; }),
              concat("added_tokens[0].", name, " = true, but only false is supported"));
  }
}

TEST_F(TokenizersJson, RefusesOtherWords) {
  EXPECT_SAYS(refused([](json& j) { j["pre_tokenizer"] = nullptr; }),
              "pre_tokenizer.type is missing, but only \"ByteLevel\" or");
  EXPECT_SAYS(refused([](json& j) { j["pre_tokenizer"]["type"] = "Metaspace"; }),
              "pre_tokenizer.type = \"Metaspace\", but only");
  EXPECT_SAYS(refused([](json& j) { j["pre_tokenizer"].erase("add_prefix_space"); }),
              "pre_tokenizer.add_prefix_space is missing, but only");
  EXPECT_SAYS(refused([](json& j) { j["pre_tokenizer"]["type"] = "Sequence"; }),
              "pre_tokenizer.pretokenizers is missing, but only");
  const auto step = [&](const std::string& pattern, const Change& change) {
    return refused([&](json& j) {
      j["pre_tokenizer"] = sequence({pattern});
      change(j["pre_tokenizer"]["pretokenizers"]);
    });
  };
  EXPECT_EQ(step("a", [](json&) {}), "nothing was thrown");
  EXPECT_EQ(step("a", [](json& j) { j[0]["behavior"] = "Removed"; }),
            "pre_tokenizer.pretokenizers[0].behavior = \"Removed\", but only \"Isolated\" is "
            "supported");
  EXPECT_SAYS(step("a", [](json& j) { j[0]["invert"] = true; }), "[0].invert = true, but only");
  EXPECT_SAYS(step("a", [](json& j) { j[0]["type"] = "Digits"; }), "[0].type = \"Digits\", but");
  EXPECT_SAYS(step("a",
                   [](json& j) {
                     j[0]["pattern"] = {{"String", "a"}};
                   }),
              "[0].pattern.Regex is missing, but only");
  EXPECT_SAYS(step("a", [](json& j) { j.erase(1); }), "[0].type = \"Split\", but only");
  EXPECT_SAYS(step("a", [](json& j) { j[1]["add_prefix_space"] = true; }),
              "[1].add_prefix_space = true, but only false");
  EXPECT_SAYS(step("a", [](json& j) { j = json::array(); }), "only a list of 1 to 16");
  EXPECT_EQ(
      step("a|(b", [](json&) {}),
      "pre_tokenizer.pretokenizers[0].pattern.Regex = \"a|(b\" cannot be used: it has a group "
      "that is not closed");
}

TEST_F(TokenizersJson, RefusesDamage) {
  EXPECT_SAYS(why([](json& j) { j["model"].erase("vocab"); }), "no vocabulary");
  EXPECT_SAYS(why([](json& j) { j["model"].erase("merges"); }), "no list of merges");
  EXPECT_SAYS(why([](json& j) { j["model"]["merges"][0] = 3; }), "not a pair");
  EXPECT_SAYS(why([](json& j) { j["model"]["merges"][0] = {"l", "o", "w"}; }), "not a pair");
  EXPECT_SAYS(why([](json& j) { j["added_tokens"] = "x"; }),
              "added_tokens = \"x\", but only a list");
  EXPECT_SAYS(why([](json& j) { j["added_tokens"][0]["id"] = 1000; }), "not numbered");
  EXPECT_SAYS(why([](json& j) { j["added_tokens"][0].erase("id"); }), "no usable number");
  EXPECT_SAYS(why([](json& j) { j["added_tokens"][0].erase("content"); }), "[0] has no content");
  EXPECT_SAYS(why([](json& j) { j["added_tokens"][0]["content"] = ""; }), "no content");
  EXPECT_SAYS(why([](json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }),
              "added token \"<|endoftext|>\" is there twice");
  EXPECT_SAYS(why([](json& j) { j["added_tokens"][0]["content"] = std::string(2 << 20, 'x'); }),
              "more than 1048576 bytes");
  const auto added = [&](std::int32_t id, const char* content) {
    return why([&](json& j) { j["added_tokens"].push_back({{"id", id}, {"content", content}}); });
  };
  EXPECT_SAYS(added(5, "low"), "\"low\" has two numbers");
  EXPECT_SAYS(added(0xe9, "é"), "\"é\" stands for other bytes in the vocabulary");
  EXPECT_SAYS(why([](json& j) {
                json deep = 1;
                for (int i = 0; i < 40; ++i) deep = json::array({deep});
                j["unknown"] = deep;
              }),
              "nested more than 32 deep");
  EXPECT_SAYS(why([](json& j) { j["unknown"] = std::vector<int>(6'000'001, 1); }),
              "more than 6000000 values");
  write("tokenizer.json", "[]");
  EXPECT_SAYS(refusal([&] { load_tokenizer(path()); }), "not a JSON object");
}

}  // namespace
}  // namespace fourfold::test
