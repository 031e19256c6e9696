// Tokenizers of bytes and of SentencePiece, and which files are taken for which.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/tokenizer.hpp"

#include <random>

#include <nlohmann/json.hpp>

#include "fourfold/data/bpe_trainer.hpp"
#include "fourfold/data/sentencepiece_model.hpp"

#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::BpeTrainer;
using data::load_tokenizer;
using data::make_byte_tokenizer;
using data::Tokenizer;
using Ids = std::vector<std::int32_t>;

/// Some lines about nothing, always the same.
std::string story() {
  const char* words[] = {"the",    "cat",    "sat",   "on",    "a",      "mat",
                         "and",    "looked", "at",    "birds", "while",  "it",
                         "rained", "over",   "hills", "where", "nobody", "walked"};
  std::mt19937 random(1);
  std::string text;
  for (int line = 0; line < 400; ++line) {
    for (auto n = 3 + random() % 8; n > 0; --n) text += std::string(words[random() % 18]) + " ";
    text.back() = '.';
    text += "\n";
  }
  return text;
}

std::unique_ptr<Tokenizer> bpe(std::int64_t vocabulary = 400) {
  BpeTrainer trainer;
  trainer.add(story());
  return trainer.train(vocabulary);
}

/// A random text of words, white space, rare characters and, if wanted, any bytes.
std::string random_text(std::mt19937& random, bool any_bytes) {
  const std::vector<std::string> parts = {"the",
                                          " cat",
                                          "\n",
                                          "\n\n",
                                          "\t",
                                          " ",
                                          "  ",
                                          "     ",
                                          "\r\n",
                                          "\xc3\xa9",
                                          "\xe6\xbc\xa2",
                                          "\xf0\x9f\x98\x80",
                                          "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb",
                                          "\xe2\x96\x81",
                                          "\xe2\x96\x85",
                                          "\xef\xbb\xbf",
                                          "\xef\xbf\xbd",
                                          std::string(1, '\0'),
                                          "<s>",
                                          "</s>",
                                          "<unk>",
                                          "<0x0A>",
                                          "\xc2\xa0",
                                          "\xe3\x80\x80",
                                          "e\xcc\x81",
                                          "\xef\xac\x81",
                                          "rained"};
  std::string text;
  for (auto n = random() % 20; n > 0; --n) {
    text += any_bytes && random() % 3 == 0 ? std::string(1, static_cast<char>(random()))
                                           : parts[random() % parts.size()];
  }
  return text;
}

void expect_lossless(const Tokenizer& tokenizer) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    const std::string text = random_text(random, i % 2 == 1);
    const Ids tokens = tokenizer.encode(text);
    ASSERT_EQ(tokenizer.decode(tokens), text);
    std::string one_by_one;
    for (const std::int32_t token : tokens) {
      ASSERT_LT(token, tokenizer.vocabulary());
      one_by_one += tokenizer.decode(std::span(&token, 1));
    }
    ASSERT_EQ(one_by_one, text);
  }
  EXPECT_EQ(tokenizer.encode(""), Ids());
}

class Tokenizers : public InFolder {};

TEST_F(Tokenizers, BytesAreTheirValues) {
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_EQ(tokenizer->end_of_text(), 0);
  EXPECT_EQ(tokenizer->encode("A\xff\n"), (Ids{65, 255, 10}));
  expect_lossless(*tokenizer);
  EXPECT_SAYS(refusal([&] { tokenizer->decode(Ids{256}); }), "token 256 is not in");
}

TEST_F(Tokenizers, BytesAreSavedAsGpt2) {
  make_byte_tokenizer()->save(path());
  EXPECT_EQ(content("merges.txt"), "#version: 0.2\n");
  const auto vocabulary = nlohmann::json::parse(content("vocab.json"));
  EXPECT_EQ(vocabulary.size(), 256U);
  EXPECT_EQ(vocabulary.at("Ā"), 0);
  EXPECT_EQ(vocabulary.at("Ġ"), 32);
  EXPECT_EQ(vocabulary.at("A"), 65);
  EXPECT_EQ(vocabulary.at("ÿ"), 255);
  const auto config = nlohmann::json::parse(content("tokenizer_config.json"));
  EXPECT_EQ(config.at("tokenizer_class"), "GPT2Tokenizer");
  EXPECT_EQ(config.at("eos_token"), "Ā");
  const auto loaded = load_tokenizer(path());
  EXPECT_EQ(loaded->vocabulary(), 256);
  EXPECT_EQ(loaded->end_of_text(), 0);
  EXPECT_EQ(loaded->encode("'s A\xff\n"), (Ids{39, 115, 32, 65, 255, 10}));
}

TEST_F(Tokenizers, BpeIsLossless) {
  expect_lossless(*bpe());
}

TEST_F(Tokenizers, BpeLearns) {
  const auto tokenizer = bpe();
  EXPECT_EQ(tokenizer->vocabulary(), 400);
  EXPECT_EQ(tokenizer->end_of_text(), 1);
  EXPECT_EQ(tokenizer->decode(Ids{1}), "");
  EXPECT_EQ(tokenizer->encode(" birds").size(), 1U);
  EXPECT_EQ(tokenizer->encode("\n").size(), 1U);
  const std::string text = story();
  EXPECT_LT(tokenizer->encode(text).size() * 3, text.size());
}

TEST_F(Tokenizers, BpeCutsAtLineEndsChangeNothing) {
  const auto tokenizer = bpe();
  const std::string text = "  the cat\n\n sat \t on\na mat";
  const Ids whole = tokenizer->encode(text);
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
    Ids parts = tokenizer->encode(text.substr(0, at + 1));
    const Ids second = tokenizer->encode(text.substr(at + 1));
    parts.insert(parts.end(), second.begin(), second.end());
    EXPECT_EQ(parts, whole);
  }
}

TEST_F(Tokenizers, BpeIsTheSameEveryTime) {
  const auto saved = [&](const std::string& name, const std::vector<std::string>& pieces) {
    BpeTrainer trainer;
    for (const std::string& piece : pieces) trainer.add(piece);
    std::filesystem::create_directory(path(name));
    trainer.train(380)->save(path(name));
    return content(name + "/tokenizer.model");
  };
  const std::string text = story();
  const std::size_t line = text.find('\n', 1000) + 1;
  const std::string first = saved("a", {text});
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(saved("b", {text}), first);
  EXPECT_EQ(saved("c", {text.substr(0, line), text.substr(line)}), first);
}

TEST_F(Tokenizers, BpeSavesAndLoads) {
  const auto made = bpe();
  made->save(path());
  EXPECT_EQ(names(), (std::vector<std::string>{"tokenizer.model", "tokenizer_config.json"}));
  const auto config = nlohmann::json::parse(content("tokenizer_config.json"));
  EXPECT_EQ(config.at("tokenizer_class"), "LlamaTokenizer");
  EXPECT_EQ(config.at("legacy"), false);
  EXPECT_EQ(config.at("add_bos_token"), false);
  EXPECT_EQ(config.at("eos_token"), "</s>");
  const auto loaded = load_tokenizer(path());
  EXPECT_EQ(loaded->vocabulary(), 400);
  EXPECT_EQ(loaded->end_of_text(), 1);
  EXPECT_EQ(loaded->encode(story()), made->encode(story()));
  EXPECT_SAYS(refusal([&] { loaded->decode(Ids{400}); }), "token 400 is not in");
}

/// The number at the end of a refusal.
std::int64_t number_at_end(const std::string& text) {
  return parse_int(text.substr(text.rfind(' ') + 1)).value_or(-1);
}

TEST_F(Tokenizers, BpeSaysWhichSizesWork) {
  BpeTrainer trainer;
  trainer.add("the cat sat on the mat\n");
  const auto why = [&](std::int64_t size) { return refusal([&] { trainer.train(size); }); };
  const std::string large = why(5000);
  EXPECT_SAYS(large, "a vocabulary of 5000 is too large for this text: at most ");
  const std::int64_t most = number_at_end(large);
  EXPECT_EQ(trainer.train(most)->vocabulary(), most);
  EXPECT_SAYS(why(most + 1), "too large");
  const std::string small = why(260);
  EXPECT_SAYS(small, "a vocabulary of 260 is too small for this text: at least ");
  const std::int64_t least = number_at_end(small);
  EXPECT_EQ(trainer.train(least)->vocabulary(), least);
  EXPECT_SAYS(why(least - 1), "too small");
  for (const std::int64_t size : {1, 2, 10, 256, 258}) {
    EXPECT_EQ(number_at_end(why(size)), least) << why(size);
  }
  EXPECT_SAYS(why(0), "not possible");
  EXPECT_SAYS(why(-1), "not possible");
  EXPECT_SAYS(why(std::int64_t{1} << 40), "not possible");
  EXPECT_EQ(number_at_end(why(1 << 20)), most);
}

TEST_F(Tokenizers, BpeNeedsText) {
  for (const char* text : {"", "\n\n\n", "\xe2\x96\x85\n"}) {
    BpeTrainer trainer;
    trainer.add(text);
    EXPECT_SAYS(refusal([&] { trainer.train(300); }), "there is no text");
  }
}

TEST_F(Tokenizers, BpeLearnsFromStrangeText) {
  BpeTrainer trainer;
  trainer.add("\xe2\x96\x85 bar \xe2\x96\x81 <s></s><unk><0x41> \t\t x\r\n");
  trainer.add(std::string(10'000, 'q') + "\n");                // longer than SentencePiece takes
  for (int i = 0; i < 3000; ++i) trainer.add("\xe6\xbc\xa2");  // cut between characters
  trainer.add("                \n");
  const auto tokenizer = trainer.train(270);
  expect_lossless(*tokenizer);
  EXPECT_LT(tokenizer->encode("qqqqqqqqqqqqqqqq").size(), 4U);
}

TEST_F(Tokenizers, BpeLearnsRunsOfSpaces) {
  BpeTrainer trainer;
  for (int i = 0; i < 50; ++i) trainer.add("        if (x) {\n            return;\n");
  EXPECT_EQ(trainer.train(290)->encode("        ").size(), 1U);
}

TEST_F(Tokenizers, BpeCutsLongLinesBetweenCharacters) {
  // 4096 bytes would end within a character of three bytes.
  BpeTrainer whole;
  BpeTrainer cut;
  std::string line;
  for (int i = 0; i < 1365; ++i) line += "\xe6\xbc\xa2";
  whole.add(line + line + "\n");
  cut.add(line + "\n" + line + "\n");
  std::filesystem::create_directory(path("cut"));
  whole.train(262)->save(path());
  cut.train(262)->save(path("cut"));
  EXPECT_EQ(content("tokenizer.model"), content("cut/tokenizer.model"));
}

TEST_F(Tokenizers, BpeStopsAtItsLimit) {
  BpeTrainer small(2000);
  for (int i = 0; i < 100; ++i) small.add("only common words here\n");
  BpeTrainer large = small;
  large.add(story());
  std::filesystem::create_directory(path("large"));
  small.train(290)->save(path());
  large.train(290)->save(path("large"));
  EXPECT_EQ(content("tokenizer.model"), content("large/tokenizer.model"));
}

TEST_F(Tokenizers, BpeSaysNothing) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  bpe();
  refusal([&] { bpe(1'000'000); });
  write("tokenizer.model", "not a model");
  refusal([&] { load_tokenizer(path()); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST_F(Tokenizers, ModelComesBeforeVocabularyBeforeJson) {
  EXPECT_SAYS(refusal([&] { load_tokenizer(path()); }), "there is no tokenizer in " + path());
  EXPECT_SAYS(refusal([&] { load_tokenizer(path("no")); }), path("no") + " does not exist");
  write("tokenizer.json", "{}");
  EXPECT_SAYS(refusal([&] { load_tokenizer(path()); }), "tokenizer.json");
  make_byte_tokenizer()->save(path());
  EXPECT_EQ(load_tokenizer(path())->vocabulary(), 256);
  std::filesystem::remove(path("merges.txt"));
  EXPECT_SAYS(refusal([&] { load_tokenizer(path()); }), "tokenizer.json");
  make_byte_tokenizer()->save(path());
  bpe()->save(path());
  EXPECT_EQ(load_tokenizer(path())->vocabulary(), 400);
}

TEST_F(Tokenizers, DamagedModelsAreRefused) {
  bpe(300)->save(path());
  const std::string model = content("tokenizer.model");
  const auto why = [&](const std::string& damaged) {
    write("tokenizer.model", damaged);
    return refusal([&] { load_tokenizer(path())->encode("the cat \xc3\xa9\n"); });
  };
  EXPECT_EQ(why(model), "nothing was thrown");
  EXPECT_SAYS(why(""), path("tokenizer.model") + " cannot be used: it is damaged");
  EXPECT_SAYS(why("a text\n"), "damaged");
  for (std::size_t length = 1; length < model.size(); length += 41) {
    ASSERT_NE(why(model.substr(0, length)), "nothing was thrown") << length;
  }
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {  // must neither crash nor throw anything else
    std::string damaged = model;
    for (auto n = 1 + random() % 8; n > 0; --n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    why(damaged);
  }
  std::filesystem::resize_file(path("tokenizer.model"), std::uintmax_t{129} << 20);
  EXPECT_SAYS(refusal([&] { load_tokenizer(path()); }), "has 135266304 bytes; at most 134217728");
  std::filesystem::remove(path("tokenizer.model"));
  std::filesystem::create_directory(path("tokenizer.model"));
  EXPECT_SAYS(refusal([&] { load_tokenizer(path()); }), "is not a file");
}

/// A model's end in protobuf's encoding, with one value changed.
std::string with_option(std::string model, const std::string& from, const std::string& to) {
  const std::size_t at = model.rfind(from);
  EXPECT_NE(at, std::string::npos);
  return model.replace(at, from.size(), to);
}

TEST_F(Tokenizers, ModelsThatChangeTextAreRefused) {
  bpe(300)->save(path());
  const std::string model = content("tokenizer.model");
  const auto why = [&](const std::string& from, const std::string& to) {
    return data::why_unusable(with_option(model, from, to));
  };
  EXPECT_EQ(data::why_unusable(model), "");
  // The end of the file: {name: "identity", replacements: "", add prefix: 0, remove spaces: 0}.
  const std::string end("\x1a\x10\n\x08identity\x12\0\x18\0\x20\0", 18);
  ASSERT_TRUE(model.ends_with(end));
  EXPECT_SAYS(why(std::string("\x18\0\x20\0", 4), std::string("\x18\1\x20\0", 4)),
              "before the text");
  EXPECT_SAYS(why(std::string("\x18\0\x20\0", 4), std::string("\x18\0\x20\1", 4)),
              "removes spaces");
  EXPECT_SAYS(why(end, "\x1a\x0a\n\x08identity"), "before the text") << "it is the default";
  EXPECT_SAYS(why(end, std::string("\x1a\x0c\n\x08identity\x18\0", 14)), "removes spaces");
  EXPECT_SAYS(data::why_unusable(model + std::string("\x1a\x03\x12\x01z", 5)), "replaces");
  EXPECT_SAYS(data::why_unusable(model + std::string("\x2a\x03\x12\x01z", 5)), "replaces");
  EXPECT_SAYS(data::why_unusable(model + std::string("\x1a\x02\x28\0", 4)), "escape");
  EXPECT_SAYS(data::why_unusable(model + std::string("\x12\x02\x18\1", 4)), "not a BPE");
  EXPECT_SAYS(data::why_unusable(model + std::string("\x12\x03\x98\x02\0", 5)), "byte_fallback");
  EXPECT_SAYS(data::why_unusable(model + "\x1a"), "damaged");
  EXPECT_SAYS(data::why_unusable(model + "\x1a\x05z"), "damaged");
  EXPECT_SAYS(data::why_unusable(model + "\x1a\x01\x18"), "damaged") << "within a message";
  EXPECT_SAYS(data::why_unusable(model + "\x12\x01\x18"), "damaged");
  EXPECT_SAYS(data::why_unusable(model + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
              "damaged");
  const std::string too_long = "\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01";
  EXPECT_SAYS(data::why_unusable(model + too_long), "damaged") << "a number of 77 bits";
  EXPECT_SAYS(data::why_unusable(model + "\x0b"), "damaged") << "an unknown kind of field";
  const std::string fields(
      "\x09"
      "12345678"
      "\x0d"
      "1234"
      "\x08\x96\x01",
      17);
  EXPECT_EQ(data::why_unusable(fields + model), "") << "unknown fields of every kind";
}

}  // namespace
}  // namespace fourfold::test
