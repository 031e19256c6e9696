// From text to tokens: what is made, how it is split, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <set>

#include "tests/data/prepare_support.hpp"

namespace fourfold::test {
namespace {

using data::load_tokenizer;
using data::Prepared;
using data::PrepareSpec;

std::multiset<std::string> lines_of(const std::string& text) {
  const auto all = split(text, '\n');
  return {all.begin(), all.end()};
}

class Prepare : public PrepareTest {};

TEST_F(Prepare, BytesOfOneFile) {
  const std::string any("any\0thing\xff\n", 11);
  write("t", any);
  const Prepared prepared = prepare(spec("t"));
  EXPECT_EQ(text_of(prepared, prepared.train), any);
  EXPECT_EQ(prepared.validation, "");
  EXPECT_EQ(prepared.vocabulary, 256);
  EXPECT_EQ(prepared.train_tokens, 11);
  EXPECT_EQ(prepared.validation_tokens, 0);
  EXPECT_EQ(prepared.bytes, 11);
  EXPECT_EQ(prepared.files_used, 1);
  EXPECT_EQ(prepared.files_skipped, 0);
  EXPECT_FALSE(prepared.from_cache);
  EXPECT_EQ(names(entry(prepared)),
            (std::vector<std::string>{"description.json", "tokenizer", "train"}));
  EXPECT_EQ(names("cache").size(), 1U);
}

TEST_F(Prepare, BpeOfOneFile) {
  const std::string text = lines(2000);
  write("t", text);
  const Prepared prepared = prepare(spec("t", "bpe"));
  EXPECT_EQ(text_of(prepared, prepared.train), text);
  EXPECT_EQ(prepared.vocabulary, 320);
  EXPECT_EQ(load_tokenizer(prepared.tokenizer)->vocabulary(), 320);
  EXPECT_LT(prepared.train_tokens * 2, prepared.bytes);
  EXPECT_EQ(all_of(prepared.train), load_tokenizer(prepared.tokenizer)->encode(text));
}

TEST_F(Prepare, FolderWithEndsBetweenFiles) {
  write("d/b", "second\n");
  write("d/a", "first");
  write("d/c/d", "third");
  write("d/bin.dat", std::string("\0\1", 2));
  write("d/latin", "\xe9t\xe9\n");
  write("d/empty", "");
  std::filesystem::create_symlink("a", path("d/a.u8"));
  const Prepared prepared = prepare(spec("d"));
  EXPECT_EQ(text_of(prepared, prepared.train), std::string("first\0second\n\0third", 19));
  EXPECT_EQ(prepared.files_used, 3);
  EXPECT_EQ(prepared.files_skipped, 4);
  EXPECT_EQ(prepared.bytes, 17);
  EXPECT_EQ(prepared.train_tokens, 19);
}

TEST_F(Prepare, BpeEndsTexts) {
  write("d/a", lines(500, 1));
  write("d/b", lines(500, 2));
  const Prepared prepared = prepare(spec("d", "bpe"));
  const Ids tokens = all_of(prepared.train);
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 1), 1);
  const auto middle = std::find(tokens.begin(), tokens.end(), 1);
  const auto tokenizer = load_tokenizer(prepared.tokenizer);
  EXPECT_EQ(tokenizer->decode(Ids(tokens.begin(), middle)), lines(500, 1));
}

TEST_F(Prepare, SplitsIntoShares) {
  const std::string text = lines(40'000);
  write("t", text);
  for (const double share : {0.1, 0.5, 0.9}) {
    PrepareSpec some = spec("t");
    some.validation = share;
    const Prepared prepared = prepare(some);
    EXPECT_EQ(prepared.train_tokens + prepared.validation_tokens,
              static_cast<std::int64_t>(text.size()));
    EXPECT_NEAR(static_cast<double>(prepared.validation_tokens),
                share * static_cast<double>(text.size()), 0.01 * static_cast<double>(text.size()));
    std::multiset<std::string> both = lines_of(text_of(prepared, prepared.train));
    both.merge(lines_of(text_of(prepared, prepared.validation)));
    both.erase("");
    std::multiset<std::string> expected = lines_of(text);
    expected.erase("");
    EXPECT_EQ(both, expected) << "every line is whole in one of the two";
  }
}

TEST_F(Prepare, SharesComeFromAllOverTheText) {
  write("t", lines(40'000));
  PrepareSpec some = spec("t");
  some.validation = 0.2;
  const Prepared prepared = prepare(some);
  std::vector<int> tenths(10, 0);
  std::int64_t last = 0;
  std::int64_t smallest_gap = 40'000;
  std::int64_t largest_gap = 0;
  for (const std::string& line : split(text_of(prepared, prepared.validation), '\n')) {
    if (line.empty()) continue;
    const std::int64_t number = parse_int(line.substr(0, line.find(':'))).value();
    ++tenths[static_cast<std::size_t>(number / 4000)];
    if (number != last + 1) {
      smallest_gap = std::min(smallest_gap, number - last);
      largest_gap = std::max(largest_gap, number - last);
    }
    last = number;
  }
  for (const int count : tenths) {  // 800 on average
    EXPECT_GT(count, 400);
    EXPECT_LT(count, 1200);
  }
  EXPECT_GT(largest_gap, 5 * smallest_gap) << "it is no pattern";
}

TEST_F(Prepare, SmallTextsSplitToo) {
  write("t", lines(200));
  PrepareSpec some = spec("t");
  some.validation = 0.1;
  const Prepared prepared = prepare(some);
  EXPECT_GT(prepared.validation_tokens * 14, prepared.bytes);
  EXPECT_LT(prepared.validation_tokens * 8, prepared.bytes);
}

TEST_F(Prepare, EndsStandBetweenFilesOfBothShares) {
  for (const char* name : {"d/a", "d/b", "d/c"}) write(name, lines(4000, 7));
  PrepareSpec some = spec("d");
  some.validation = 0.3;
  const Prepared prepared = prepare(some);
  for (const std::string& part : {prepared.train, prepared.validation}) {
    const Ids tokens = all_of(part);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 0), 2);
    EXPECT_NE(tokens.front(), 0);
    EXPECT_NE(tokens.back(), 0);
  }
}

TEST_F(Prepare, LearnsFromTheTrainingPartAlone) {
  // A line is a piece and has a word of its own: were those for validation learnt, they would take
  // as few tokens.
  std::mt19937 random(8);
  std::string text;
  for (int line = 0; line < 120; ++line) {
    std::string word = " ";
    for (int letter = 0; letter < 10; ++letter) word += static_cast<char>('a' + random() % 26);
    for (int times = 0; times < 8; ++times) text += word;
    text += "\n";
  }
  write("t", text);
  PrepareSpec some = spec("t", "bpe");
  some.validation = 0.5;
  some.vocabulary = 700;
  const Prepared prepared = prepare(some);
  const auto bytes = [&](const std::string& part) {
    return static_cast<double>(text_of(prepared, part).size());
  };
  EXPECT_GT(static_cast<double>(prepared.validation_tokens) / bytes(prepared.validation),
            2 * static_cast<double>(prepared.train_tokens) / bytes(prepared.train));
}

TEST_F(Prepare, LearnsFromASampleOfLargeTexts) {
  // The second half is in other words: a sample from everywhere knows both.
  write(
      "t", lines(4000) + [] {
        std::string other;
        for (int i = 0; i < 4000; ++i) other += "zzyzx quokka vuvuzela\n";
        return other;
      }());
  PrepareSpec some = spec("t", "bpe");
  some.learn_bytes = 20'000;
  some.vocabulary = 400;
  const auto tokenizer = load_tokenizer(prepare(some).tokenizer);
  EXPECT_LE(tokenizer->encode(" quokka").size(), 2U);
  EXPECT_LE(tokenizer->encode(" river").size(), 3U);
}

TEST_F(Prepare, LearnsFromASampleBesideValidation) {
  // Shares of the same size must not be of the same pieces.
  const std::string text = lines(4000);
  write("t", text);
  PrepareSpec some = spec("t", "bpe");
  some.validation = 0.25;
  some.learn_bytes = static_cast<std::int64_t>(text.size()) * 3 / 16 + 1;
  EXPECT_EQ(prepare(some).vocabulary, 320);
}

TEST_F(Prepare, TellsHowFarItIs) {
  write("t", lines(3000));
  PrepareSpec some = spec("t", "bpe");
  std::vector<std::pair<std::string, double>> told;
  some.progress = [&](std::string_view task, double done) { told.emplace_back(task, done); };
  prepare(some);
  std::vector<std::string> tasks;
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (tasks.empty() || tasks.back() != told[i].first) {
      tasks.push_back(told[i].first);
      EXPECT_EQ(told[i].second, 0.0);
    } else {
      EXPECT_GT(told[i].second, told[i - 1].second);
    }
    EXPECT_LE(told[i].second, 1.0);
  }
  EXPECT_EQ(tasks, (std::vector<std::string>{"reading", "learning", "encoding"}));
  EXPECT_EQ(told.back().second, 1.0);
  EXPECT_GT(told.size(), 50U);
  EXPECT_LT(told.size(), 350U);
}

TEST_F(Prepare, RefusesWrongSettings) {
  write("t", lines(10));
  PrepareSpec some = spec("t", "words");
  EXPECT_SAYS(why(some), "data.tokenizer = \"words\"");
  some = spec("t");
  some.vocabulary = 300;
  EXPECT_SAYS(why(some), "model.vocab = 300");
  some = spec("t", "bpe");
  some.vocabulary = 0;
  EXPECT_SAYS(why(some), "model.vocab = 0");
  for (const double share : {-0.1, 1.0, 2.0, std::nan("")}) {
    some = spec("t");
    some.validation = share;
    EXPECT_SAYS(why(some), "data.validation = ");
  }
  some = spec("t");
  some.cache = path("t/cache");
  EXPECT_SAYS(why(some), "data.cache = " + path("t/cache") + " cannot be created");
  write("d/a", "text");
  some = spec("d");
  some.cache = path("d/cache");
  EXPECT_SAYS(why(some), "data.cache = " + path("d/cache") + " lies in data.text");
  some.cache = path("d");
  EXPECT_SAYS(why(some), "lies in data.text");
}

TEST_F(Prepare, RefusesTextsThatCannotBeUsed) {
  EXPECT_SAYS(why(spec("no")), "data.text: " + path("no") + " cannot be read");
  write("empty", "");
  EXPECT_SAYS(why(spec("empty")), "data.text = " + path("empty") + ": there is no text in it");
  std::filesystem::create_directory(path("d"));
  EXPECT_SAYS(why(spec("d")), "there is no text in it");
  write("d/bin", std::string("\0", 1));
  EXPECT_SAYS(why(spec("d")), "there is no text in it");
  EXPECT_SAYS(why(spec("d/bin", "bpe")), "it is binary; data.tokenizer = \"bytes\" takes");
  write("latin", "\xe9t\xe9\n");
  EXPECT_SAYS(why(spec("latin", "bpe")), "it is not UTF-8");
  write("newlines", "\n\n\n");
  EXPECT_SAYS(why(spec("newlines", "bpe")),
              "data.text = " + path("newlines") + ": there is no text");
  write("small", "the cat sat on the mat\n");
  EXPECT_SAYS(why(spec("small", "bpe")), "data.text = " + path("small"));
  EXPECT_SAYS(why(spec("small", "bpe")),
              "a vocabulary of 320 is too large for this text: at most ");
  PrepareSpec some = spec("small");
  for (const double share : {0.001, 0.999}) {  // its only piece is on the other side
    some.validation = share;
    EXPECT_SAYS(why(some), "data.text = " + path("small") + ": it has too little text (23 bytes)");
  }
  EXPECT_TRUE(names("cache").empty());
}

}  // namespace
}  // namespace fourfold::test
