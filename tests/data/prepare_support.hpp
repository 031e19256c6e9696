// What the tests of preparation share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>
#include <vector>

#include "fourfold/data/prepare.hpp"
#include "fourfold/data/token_file.hpp"
#include "fourfold/data/tokenizer.hpp"

#include "tests/data/support.hpp"

namespace fourfold::test {

using Ids = std::vector<std::int32_t>;

/// Numbered lines of common words, always the same for a seed.
inline std::string lines(int count, unsigned seed = 1) {
  const char* words[] = {"sun",   "moon", "stars", "shine", "above", "every", "quiet",
                         "river", "of",   "the",   "north", "and",   "south"};
  std::mt19937 random(seed);
  std::string text;
  for (int line = 0; line < count; ++line) {
    text += concat(line, ":");
    for (auto n = 2 + random() % 6; n > 0; --n) text += std::string(" ") + words[random() % 13];
    text += "\n";
  }
  return text;
}

inline Ids all_of(const std::string& path) {
  const data::Tokens tokens(path);
  std::vector<std::int64_t> out(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, tokens.size(), out.data());
  return {out.begin(), out.end()};
}

inline std::string text_of(const data::Prepared& prepared, const std::string& tokens) {
  return data::load_tokenizer(prepared.tokenizer)->decode(all_of(tokens));
}

/// Texts and the cache are in the test's folder.
class PrepareTest : public InFolder {
 protected:
  data::PrepareSpec spec(const std::string& text, const std::string& tokenizer = "bytes") const {
    data::PrepareSpec spec;
    spec.text = path(text);
    spec.tokenizer = tokenizer;
    spec.vocabulary = tokenizer == "bpe" ? 320 : 0;
    spec.cache = path("cache");
    return spec;
  }
  /// The folder of an entry.
  static std::string entry(const data::Prepared& prepared) {
    return std::filesystem::path(prepared.train).parent_path();
  }
  std::string why(const data::PrepareSpec& one) const {
    return refusal([&] { prepare(one); });
  }
};

}  // namespace fourfold::test
