// Damaged files of byte-level BPE: each is refused in one line, or works.
// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <random>

#include "tests/data/small_bpe.hpp"
#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using nlohmann::json;

const std::string kText = "lower <|endoftext|> new\r\n\t  it's 123 \xc3\xa9\xe6\xbc\xa2 \xff aaa";

/// A file with every key that is read.
json full_json() {
  json file = tokenizer_json();
  file["model"].update({{"dropout", nullptr}, {"byte_fallback", false}, {"ignore_merges", true}});
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", R"((?i:'s)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+)"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", "<b>"}}}}}},
                            {"special_tokens", {{"<b>", {{"ids", {kEnd}}}}}}};
  return file;
}

struct Outcomes {
  int refused = 0;
  int accepted = 0;
};

class FuzzTokenizers : public InFolder {
 protected:
  /// Loads what is in the folder and uses it.
  void attempt(Outcomes& outcomes) const {
    try {
      const auto tokenizer = data::load_tokenizer(path());
      const Ids ids = tokenizer->encode(kText);
      for (const std::int32_t id : ids) ASSERT_LT(id, tokenizer->vocabulary());
      std::string decoded = tokenizer->decode(ids);
      std::erase(decoded, ' ');  // some may be added
      std::string text = kText;
      std::erase(text, ' ');
      ASSERT_EQ(decoded, text);
      ASSERT_LT(tokenizer->begin_of_text(), tokenizer->vocabulary());
      ASSERT_LT(tokenizer->end_of_text(), tokenizer->vocabulary());
      ++outcomes.accepted;
    } catch (const ConfigError& error) {
      ++outcomes.refused;
      const std::string message = error.what();
      ASSERT_EQ(message.find('\n'), std::string::npos) << message;
      ASSERT_LT(message.size(), 1000U);
    }
  }
};

std::string damaged(std::string text, std::mt19937& random) {
  const std::string pieces = "[]{},:\"\\0-9e+.tfn\x01\xff\xc3 ";
  for (auto n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = pieces[random() % pieces.size()];
        break;
      case 1:
        text.erase(at, 1 + random() % 20);
        break;
      case 2:
        text.insert(at, 1, pieces[random() % pieces.size()]);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 40));
    }
  }
  return text;
}

/// Replaces or removes one value somewhere.
void replace_some(json& value, std::mt19937& random) {
  static const std::vector<json> kValues = {nullptr,
                                            true,
                                            false,
                                            -1,
                                            0,
                                            5,
                                            kEnd,
                                            18446744073709551615U,
                                            1e300,
                                            "",
                                            "a",
                                            "l o",
                                            "Ġ",
                                            "漢",
                                            "(",
                                            "\\s+",
                                            "(a+)+b",
                                            "BPE",
                                            "Split",
                                            "Sequence",
                                            "ByteLevel",
                                            "Isolated",
                                            json::array(),
                                            json::object(),
                                            json::array({"l", "o"}),
                                            json::array({1}),
                                            json{{"id", 3}},
                                            std::string(3000, 'a'),
                                            "\n"};
  if (value.is_structured() && !value.empty() && random() % 5 != 0) {
    auto at = value.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random() % value.size()));
    if (random() % 8 == 0) {
      value.erase(at);
    } else {
      replace_some(*at, random);
    }
    return;
  }
  value = kValues[random() % kValues.size()];
}

TEST_F(FuzzTokenizers, BytesOfTokenizerJson) {
  const std::string good = full_json().dump();
  std::mt19937 random(1);
  Outcomes outcomes;
  for (int i = 0; i < 1000; ++i) {
    write("tokenizer.json", damaged(good, random));
    attempt(outcomes);
  }
  EXPECT_GT(outcomes.refused, 450);
  EXPECT_GT(outcomes.accepted, 10);
}

TEST_F(FuzzTokenizers, ValuesOfTokenizerJson) {
  const json good = full_json();
  std::mt19937 random(2);
  Outcomes outcomes;
  for (int i = 0; i < 1000; ++i) {
    json bad = good;
    for (auto n = 1 + random() % 2; n > 0; --n) replace_some(bad, random);
    write("tokenizer.json", bad.dump());
    attempt(outcomes);
  }
  EXPECT_GT(outcomes.refused, 450);
  EXPECT_GT(outcomes.accepted, 10);
}

TEST_F(FuzzTokenizers, EveryTruncationIsRefused) {
  const std::string good = full_json().dump();
  Outcomes outcomes;
  write("tokenizer.json", good);
  attempt(outcomes);
  EXPECT_EQ(outcomes.accepted, 1);
  for (std::size_t size = 0; size < good.size(); size += 7) {
    write("tokenizer.json", good.substr(0, size));
    attempt(outcomes);
  }
  EXPECT_EQ(outcomes.accepted, 1);
}

TEST_F(FuzzTokenizers, BytesOfTheOtherFiles) {
  const std::string config = R"({"eos_token": {"content": "er"}, "bos_token": "<b>", "x": [1]})";
  std::mt19937 random(3);
  Outcomes outcomes;
  write("tokenizer.json", full_json().dump());
  for (int i = 0; i < 300; ++i) {
    write("tokenizer_config.json", i % 2 == 0 ? config : "{}");
    write("special_tokens_map.json", config);
    write(i % 2 == 0 ? "tokenizer_config.json" : "special_tokens_map.json",
          damaged(config, random));
    attempt(outcomes);
  }
  write("tokenizer_config.json", "{}");
  for (int i = 0; i < 300; ++i) {
    write("vocab.json", damaged(vocabulary().dump(), random));
    write("merges.txt", damaged(merge_lines(), random));
    attempt(outcomes);
  }
  EXPECT_GT(outcomes.refused, 300);
  EXPECT_GT(outcomes.accepted, 10);
}

}  // namespace
}  // namespace fourfold::test
