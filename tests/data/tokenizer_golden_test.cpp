// tokenizer.json against the ids that Hugging Face's tokenizers gives (see
// scripts/make_tokenizer_golden.py, which made the golden files).
// SPDX-License-Identifier: Apache-2.0
#include <iomanip>
#include <sstream>

#include <nlohmann/json.hpp>

#include "fourfold/data/mix.hpp"
#include "fourfold/data/tokenizer.hpp"

#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::load_tokenizer;
using data::Tokenizer;
using Ids = std::vector<std::int32_t>;

constexpr std::size_t kLines = 10'000;
constexpr std::size_t kComplete = 200;  // lines whose ids are in the golden file

std::string golden(const std::string& name) {
  return std::string(GOLDEN_FOLDER) + "/" + name;
}

std::ifstream open_golden(const std::string& name) {
  std::ifstream file(golden(name));
  EXPECT_TRUE(file) << golden(name);
  return file;
}

/// The lines of the script's make_lines().
std::vector<std::string> lines_of_golden() {
  std::ifstream file = open_golden("fragments.json");
  const auto parts = nlohmann::json::parse(file);
  std::uint64_t state = 2024;
  const auto below = [&](std::uint64_t limit) {
    const std::uint64_t value = data::mix(state);
    state += 0x9e3779b97f4a7c15U;
    return value % limit;
  };
  const auto any = [&](const char* of) {
    const auto& list = parts.at(of);
    return list.at(below(list.size())).get<std::string>();
  };
  std::vector<std::string> lines(kLines);
  for (std::string& line : lines) {
    for (auto n = 1 + below(12); n > 0; --n) {
      const std::uint64_t kind = below(32);
      if (kind == 0) {
        line += any("special");
      } else if (kind < 8) {
        for (auto letters = 1 + below(kind == 1 ? 100 : 8); letters > 0; --letters) {
          line += any("characters");
        }
      } else {
        line += any("words");
        if (kind < 12) {
          const std::string word = any("words");
          for (auto times = 1 + below(kind == 8 ? 30 : 3); times > 0; --times) line += word;
        }
      }
      line += any("spaces");
    }
  }
  return lines;
}

std::string checksum(const Ids& ids) {
  std::uint32_t value = 0x811c9dc5U;
  for (const std::int32_t id : ids) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      value = (value ^ (static_cast<std::uint32_t>(id) >> shift & 0xffU)) * 0x01000193U;
    }
  }
  std::ostringstream text;
  text << std::hex << std::setw(8) << std::setfill('0') << value;
  return text.str();
}

class TokenizersGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizersGolden, EveryLineHasTheSameTokens) {
  const auto tokenizer = load_tokenizer(golden(GetParam()));
  std::ifstream file = open_golden(concat(GetParam(), ".ids"));
  std::size_t number = 0;
  for (const std::string& line : lines_of_golden()) {
    std::string expected;
    ASSERT_TRUE(std::getline(file, expected)) << number;
    const Ids ids = tokenizer->encode(line);
    ASSERT_EQ(number < kComplete ? join(ids, " ") : checksum(ids), expected)
        << "line " << number << ": " << line;
    ASSERT_EQ(tokenizer->decode(ids), line) << number;
    ++number;
  }
  EXPECT_EQ(number, kLines);
}

TEST_P(TokenizersGolden, AnyBytesSurvive) {
  const auto tokenizer = load_tokenizer(golden(GetParam()));
  std::uint64_t state = 0;
  for (std::string line : lines_of_golden()) {
    for (int i = 0; i < 3 && !line.empty(); ++i) {
      const std::uint64_t random = data::mix(++state);
      line[(random >> 8U) % line.size()] = static_cast<char>(random);
    }
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(line)), line);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizersGolden, testing::Values("llama3", "gpt2"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TokenizersSpecial, TokensAreFound) {
  const auto llama = load_tokenizer(golden("llama3"));
  EXPECT_EQ(llama->vocabulary(), 2007);
  EXPECT_EQ(llama->begin_of_text(), 2000);
  EXPECT_EQ(llama->end_of_text(), 2001);
  EXPECT_EQ(llama->encode("<|begin_of_text|><|end_of_text|>"), (Ids{2000, 2001}));
  const auto gpt2 = load_tokenizer(golden("gpt2") + "/tokenizer.json");
  EXPECT_EQ(gpt2->vocabulary(), 2000);
  EXPECT_EQ(gpt2->begin_of_text(), -1);
  EXPECT_EQ(gpt2->end_of_text(), 0);
}

}  // namespace
}  // namespace fourfold::test
