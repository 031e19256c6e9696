// GPT-2's tokenizer: words, merges and files, with results worked out by hand.
// SPDX-License-Identifier: Apache-2.0
#include <random>

#include <nlohmann/json.hpp>

#include "fourfold/data/byte_symbols.hpp"
#include "fourfold/data/tokenizer.hpp"
#include "fourfold/data/words.hpp"

#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::load_tokenizer;
using data::Tokenizer;
using nlohmann::json;
using Ids = std::vector<std::int32_t>;
using Words = std::vector<std::string_view>;

/// Bytes are tokens 0 to 255 in the order of their values; the merges make 256, 257, ...
const std::vector<std::pair<std::string, std::string>> kMerges = {
    {"l", "o"}, {"lo", "w"}, {"e", "r"}, {"Ġ", "low"}, {"n", "e"},
    {"a", "a"}, {"#", "#"},  {"x", "y"}, {"z", "w"},   {"xy", "zw"}};
enum : std::int32_t { kLo = 256, kLow, kEr, kSpaceLow, kNe, kAa, kHashes, kXy, kZw, kXyzw, kEnd };

json vocabulary() {
  json all = json::object();
  for (int byte = 0; byte < 256; ++byte) {
    all[data::to_symbols(std::string(1, static_cast<char>(byte)))] = byte;
  }
  std::int32_t next = 256;
  for (const auto& [left, right] : kMerges) all[left + right] = next++;
  return all;
}

std::string merge_lines() {
  std::string lines = "#version: 0.2\n";
  for (const auto& [left, right] : kMerges) lines += left + " " + right + "\n";
  return lines;
}

json tokenizer_json() {
  json merges = json::array();
  for (const auto& [left, right] : kMerges) merges.push_back(left + " " + right);
  return {{"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"added_tokens", {{{"id", kEnd}, {"content", "<|endoftext|>"}}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary()}, {"merges", merges}}}};
}

class Gpt2 : public InFolder {
 protected:
  void write_files(const json& vocab, const std::string& merges) const {
    write("vocab.json", vocab.dump());
    write("merges.txt", merges);
  }
  std::unique_ptr<Tokenizer> load() const { return load_tokenizer(path()); }
  std::unique_ptr<Tokenizer> usual() const {
    json vocab = vocabulary();
    vocab["<|endoftext|>"] = kEnd;
    write_files(vocab, merge_lines());
    return load();
  }
  std::string why() const {
    return refusal([&] { load(); });
  }
};

void expect_usual(const Tokenizer& tokenizer) {
  EXPECT_EQ(tokenizer.vocabulary(), kEnd + 1);
  EXPECT_EQ(tokenizer.end_of_text(), kEnd);
  EXPECT_EQ(tokenizer.encode("lower low"), (Ids{kLow, kEr, kSpaceLow}));
  EXPECT_EQ(tokenizer.encode(" lower"), (Ids{kSpaceLow, kEr}));
  EXPECT_EQ(tokenizer.encode("new"), (Ids{kNe, 'w'}));
  EXPECT_EQ(tokenizer.encode("ner"), (Ids{'n', kEr})) << "er is more urgent than ne";
  EXPECT_EQ(tokenizer.encode("l o"), (Ids{'l', ' ', 'o'})) << "merges stay in words";
  EXPECT_EQ(tokenizer.encode("a aaa aaaa"), (Ids{'a', ' ', kAa, 'a', ' ', kAa, kAa}));
  EXPECT_EQ(tokenizer.encode("xyzwxy"), (Ids{kXyzw, kXy})) << "merged parts merge again";
  EXPECT_EQ(tokenizer.encode("###"), (Ids{kHashes, '#'}));
  EXPECT_EQ(tokenizer.encode("\xc3\xa9\n"), (Ids{0xc3, 0xa9, '\n'}));
  EXPECT_EQ(tokenizer.encode(""), Ids());
  EXPECT_EQ(tokenizer.decode(Ids{kLow, kEr, kSpaceLow, kEnd, '\n'}), "lower low<|endoftext|>\n");
}

TEST(Words, AreCutAsByGpt2) {
  const data::WordCutter cutter;
  EXPECT_EQ(cutter.cut("Hello world!  How's it\n\n going? 123abc  "),
            (Words{"Hello", " world", "!", " ", " How", "'s", " it", "\n\n", " going", "?", " 123",
                   "abc", "  "}));
  EXPECT_EQ(cutter.cut("we'll they've I'm you're don't he'd 'S"),
            (Words{"we", "'ll", " they", "'ve", " I", "'m", " you", "'re", " don", "'t", " he",
                   "'d", " '", "S"}));
  EXPECT_EQ(cutter.cut("a\tb  \xc2\xa0 c"), (Words{"a", "\t", "b", "  \xc2\xa0", " c"}));
  EXPECT_EQ(
      cutter.cut("\xc3\xa9t\xc3\xa9 \xe6\xbc\xa2\xe5\xad\x97\xf0\x9f\x98\x80!\xc2\xb2 \xd9\xa3"),
      (Words{"\xc3\xa9t\xc3\xa9", " \xe6\xbc\xa2\xe5\xad\x97", "\xf0\x9f\x98\x80!", "\xc2\xb2",
             " \xd9\xa3"}));
  EXPECT_EQ(cutter.cut("!\xe1\xa0\x8e!"), (Words{"!\xe1\xa0\x8e!"})) << "U+180E is no space";
  for (const char* space :
       {"\t", "\v", "\f", "\r", "\xc2\x85", "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x8a",
        "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"}) {
    EXPECT_EQ(cutter.cut(concat("a", space, "b")), (Words{"a", space, "b"})) << "is a space";
    EXPECT_EQ(cutter.cut(concat("!", space, "!")).size(), 3U);
  }
  EXPECT_EQ(cutter.cut("a\xff\xfe z\x80"), (Words{"a", "\xff\xfe", " z", "\x80"}));
  EXPECT_EQ(cutter.cut(""), Words());
}

TEST_F(Gpt2, FromVocabularyAndMerges) {
  expect_usual(*usual());
}

TEST_F(Gpt2, WindowsLineEndsAndNoVersion) {
  std::string merges;
  for (const char c : merge_lines().substr(merge_lines().find('\n') + 1)) {
    merges += c == '\n' ? "\r\n" : std::string(1, c);
  }
  json vocab = vocabulary();
  vocab["<|endoftext|>"] = kEnd;
  write_files(vocab, merges);
  expect_usual(*load());
}

TEST_F(Gpt2, FromTokenizerJson) {
  write("tokenizer.json", tokenizer_json().dump());
  expect_usual(*load());
  json pairs = tokenizer_json();
  pairs["model"]["merges"] = kMerges;
  EXPECT_TRUE(pairs["model"]["merges"][0].is_array());
  write("tokenizer.json", pairs.dump());
  expect_usual(*load());
  pairs["model"]["vocab"]["<|endoftext|>"] = kEnd;
  write("tokenizer.json", pairs.dump());
  expect_usual(*load());
}

TEST_F(Gpt2, SavesWhatItLoaded) {
  json parsed = tokenizer_json();
  parsed["added_tokens"].push_back({{"id", kEnd + 1}, {"content", "<a b>"}});
  write("tokenizer.json", parsed.dump());
  const auto first = load();
  std::filesystem::create_directory(path("copy"));
  first->save(path("copy"));
  EXPECT_EQ(names("copy"),
            (std::vector<std::string>{"merges.txt", "tokenizer_config.json", "vocab.json"}));
  const auto second = load_tokenizer(path("copy"));
  EXPECT_EQ(second->vocabulary(), kEnd + 2);
  EXPECT_EQ(second->end_of_text(), kEnd);
  EXPECT_EQ(second->decode(Ids{kEnd + 1}), "<a b>");
  EXPECT_EQ(second->encode("lower ner"), first->encode("lower ner"));
  EXPECT_EQ(content("copy/merges.txt"), merge_lines());
  EXPECT_THROW(first->save(path("no/such")), IoError);
}

TEST_F(Gpt2, TakesAnyBytes) {
  const auto tokenizer = usual();
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (auto n = random() % 60; n > 0; --n) {
      text += random() % 2 == 0 ? "lower ne's a"[random() % 12] : static_cast<char>(random());
    }
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

TEST_F(Gpt2, LongWordsAreNoTrouble) {
  const auto tokenizer = usual();
  EXPECT_EQ(tokenizer->encode(std::string(1'000'000, 'a')), Ids(500'000, kAa));
  EXPECT_EQ(tokenizer->encode(std::string(1'000'000, '\xff')).size(), 1'000'000U);
  EXPECT_EQ(tokenizer->encode(std::string(1'000'000, ' ')).size(), 1'000'000U);
}

TEST_F(Gpt2, EndOfTextIsTextInText) {
  const auto tokenizer = usual();
  const Ids ids = tokenizer->encode("<|endoftext|>");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kEnd), 0);
  EXPECT_EQ(tokenizer->decode(ids), "<|endoftext|>");
}

TEST_F(Gpt2, EndOfTextFromTheConfiguration) {
  write_files(vocabulary(), merge_lines());
  EXPECT_EQ(load()->end_of_text(), -1);
  write("tokenizer_config.json",
        R"({"eos_token": "Ġlow", "tokenizer_class": "GPT2TokenizerFast"})");
  EXPECT_EQ(load()->end_of_text(), kSpaceLow);
  write("tokenizer_config.json", R"({"eos_token": {"content": "er"}})");
  EXPECT_EQ(load()->end_of_text(), kEr);
  write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_SAYS(why(), "eos_token \"</s>\"");
}

TEST_F(Gpt2, RefusesTokensOutside) {
  const auto tokenizer = usual();
  EXPECT_SAYS(refusal([&] { tokenizer->decode(Ids{kEnd + 1}); }), "token 267 is not in");
  EXPECT_SAYS(refusal([&] { tokenizer->decode(Ids{-1}); }), "token -1 is not in");
}

TEST_F(Gpt2, RefusesDamagedVocabularies) {
  const auto with = [&](const std::function<void(json&)>& damage) {
    json vocab = vocabulary();
    damage(vocab);
    write_files(vocab, merge_lines());
    return why();
  };
  EXPECT_EQ(with([](json&) {}), "nothing was thrown");
  EXPECT_SAYS(with([](json& v) { v["low"] = 999; }), "not numbered from 0 to 265");
  EXPECT_SAYS(with([](json& v) { v["low"] = 5; }), "not numbered from 0 to 265");
  EXPECT_SAYS(with([](json& v) { v["low"] = -5; }), "\"low\" has no usable number");
  EXPECT_SAYS(with([](json& v) { v["low"] = 1e300; }), "\"low\" has no usable number");
  EXPECT_SAYS(with([](json& v) { v["low"] = 18446744073709551615U; }),
              "\"low\" has no usable number");
  EXPECT_SAYS(with([](json& v) { v["low"] = "x"; }), "\"low\" has no usable number");
  EXPECT_SAYS(with([](json& v) { v["漢"] = kEnd; }), "not in GPT-2's alphabet");
  EXPECT_SAYS(with([](json& v) { v.erase("a"), v["xx"] = 97; }), "lacks byte 97");
  EXPECT_SAYS(with([](json& v) { v.erase("er"), v["xx"] = kEr; }), "lacks \"er\"");
  EXPECT_SAYS(with([](json& v) { v = json::array(); }), "not a JSON object");
  write("vocab.json", R"({"a": )");
  EXPECT_SAYS(why(), path("vocab.json") + " is damaged: ");
  write("vocab.json", "");
  EXPECT_SAYS(why(), path("vocab.json") + " is damaged: ");
  write("vocab.json", std::string(100'000, '['));
  EXPECT_SAYS(why(), path("vocab.json") + " is damaged: ");
}

TEST_F(Gpt2, RefusesDamagedMerges) {
  const auto with = [&](const std::string& line) {
    write_files(vocabulary(), merge_lines() + line);
    return why();
  };
  EXPECT_EQ(with(""), "nothing was thrown");
  EXPECT_SAYS(with("lower"), "\"lower\" is not a merge");
  EXPECT_SAYS(with(" l"), "is not a merge");
  EXPECT_SAYS(with("l "), "is not a merge");
  EXPECT_SAYS(with("l o"), "\"l o\" is there twice");
  EXPECT_SAYS(with("l x"), "lacks \"lx\"");
  EXPECT_SAYS(with("xx l"), "names \"xx\"");
  EXPECT_SAYS(with("l 漢"), "names \"漢\"");
  EXPECT_SAYS(with("l \x01"), "names \" \"") << "control characters are not printed";
  EXPECT_LT(with(std::string(1'000'000, 'x')).size(), 1000U);
}

TEST_F(Gpt2, RefusesOtherTokenizers) {
  const auto with = [&](const std::function<void(json&)>& change) {
    json parsed = tokenizer_json();
    change(parsed);
    write("tokenizer.json", parsed.dump());
    return why();
  };
  EXPECT_EQ(with([](json&) {}), "nothing was thrown");
  const std::string words = "in another way than GPT-2";
  EXPECT_SAYS(with([](json& j) { j["pre_tokenizer"]["type"] = "Sequence"; }), words);
  EXPECT_SAYS(with([](json& j) { j["pre_tokenizer"]["use_regex"] = false; }), words);
  EXPECT_SAYS(with([](json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; }), words);
  EXPECT_SAYS(with([](json& j) { j["pre_tokenizer"] = nullptr; }), words);
  EXPECT_SAYS(with([](json& j) { j["normalizer"] = {{"type", "NFC"}}; }), words);
  EXPECT_SAYS(with([](json& j) { j["model"]["type"] = "WordPiece"; }), "not BPE");
  EXPECT_SAYS(with([](json& j) { j["model"] = 3; }), "no vocabulary");
  EXPECT_SAYS(with([](json& j) { j["model"].erase("merges"); }), "no list of merges");
  EXPECT_SAYS(with([](json& j) { j["model"]["merges"][0] = 3; }), "not a pair");
  EXPECT_SAYS(with([](json& j) { j["model"]["merges"][0] = {"l", "o", "w"}; }), "not a pair");
  EXPECT_SAYS(with([](json& j) { j["added_tokens"][0]["id"] = 1000; }), "not numbered");
  EXPECT_SAYS(with([](json& j) { j["added_tokens"][0].erase("id"); }), "no usable number");
  EXPECT_SAYS(with([](json& j) { j["added_tokens"][0].erase("content"); }), "no content");
  EXPECT_SAYS(with([](json& j) { j["added_tokens"][0]["content"] = ""; }), "no content");
  EXPECT_SAYS(with([](json& j) {
                j["added_tokens"].push_back({{"id", 5}, {"content", "low"}});
              }),
              "\"low\" has two numbers");
  write_files(vocabulary(), merge_lines());
  write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  EXPECT_SAYS(why(), "says \"Qwen2Tokenizer\"");
}

}  // namespace
}  // namespace fourfold::test
