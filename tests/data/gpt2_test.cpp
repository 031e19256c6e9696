// GPT-2's tokenizer of two files: words, merges and files, with results worked out by hand.
// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "fourfold/data/words.hpp"

#include "tests/data/small_bpe.hpp"
#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::load_tokenizer;
using data::Tokenizer;
using nlohmann::json;
using Words = std::vector<std::string_view>;

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

TEST(Words, AreCutAsByGpt2) {
  const data::WordCutter cutter({data::kGpt2Words});
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

TEST_F(Gpt2, SavesWhatItLoaded) {
  const auto first = usual();
  std::filesystem::create_directory(path("copy"));
  first->save(path("copy"));
  EXPECT_EQ(names("copy"),
            (std::vector<std::string>{"merges.txt", "tokenizer_config.json", "vocab.json"}));
  expect_usual(*load_tokenizer(path("copy")));
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
  // Words just below and above the length from which on a heap is used.
  for (std::size_t length = 1; length < 120; ++length) {
    Ids expected(length / 2, kAa);
    if (length % 2 == 1) expected.push_back('a');
    EXPECT_EQ(tokenizer->encode(std::string(length, 'a')), expected) << length;
  }
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

/// tokenizer.json also knows added tokens and how text is cut into words.
TEST_F(Gpt2, ATokenizerJsonBesideComesFirst) {
  write_files(vocabulary(), merge_lines());
  json beside = tokenizer_json();
  beside["added_tokens"].push_back({{"id", kEnd + 1}, {"content", "<|more|>"}});
  write("tokenizer.json", beside.dump());
  EXPECT_EQ(load()->vocabulary(), kEnd + 2);
  EXPECT_EQ(load()->encode("low<|more|>"), (Ids{kLow, kEnd + 1}));
  write("tokenizer.json", beside.dump().substr(1));
  EXPECT_SAYS(why(), path("tokenizer.json") + " is damaged");
}

TEST_F(Gpt2, ATokenizerJsonOfAnotherKindIsLeftAside) {
  write_files(vocabulary(), merge_lines());
  json beside = tokenizer_json();
  beside["model"]["type"] = "Unigram";
  write("tokenizer.json", beside.dump());
  EXPECT_EQ(load()->vocabulary(), kEnd);
  beside = tokenizer_json();
  beside["decoder"]["type"] = "Metaspace";
  write("tokenizer.json", beside.dump());
  EXPECT_EQ(load()->vocabulary(), kEnd);
  EXPECT_EQ(load()->encode("<|endoftext|>").size(), 13U);
}

TEST_F(Gpt2, RefusesOtherTokenizers) {
  write_files(vocabulary(), merge_lines());
  write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  EXPECT_SAYS(why(), "says \"Qwen2Tokenizer\"");
}

}  // namespace
}  // namespace fourfold::test
