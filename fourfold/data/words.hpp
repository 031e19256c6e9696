// The cutting of text into words. Merges never cross words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::data {

/// GPT-2's words: English endings ('s, 'll, ...), letters, digits and other signs, each with one
/// space before them, and white space.
inline constexpr const char* kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// May be used by several threads at once.
class WordCutter {
 public:
  /// The patterns have the syntax of tokenizer.json (see to_pcre2). Each cuts the words of the one
  /// before: a match is a word, and so is the text between two matches. Throws ConfigError when a
  /// pattern is too large, may match an empty text, or has unknown syntax.
  explicit WordCutter(const std::vector<std::string>& patterns);
  ~WordCutter();
  WordCutter(const WordCutter&) = delete;
  WordCutter& operator=(const WordCutter&) = delete;

  /// The words, which together are `text` again. A run of bytes that are not UTF-8 is a word, and
  /// the text on either side of it is cut as if it were alone. Throws ConfigError when a pattern
  /// takes too many steps, as no usual pattern does.
  std::vector<std::string_view> cut(std::string_view text) const;

 private:
  class Pattern;

  std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace fourfold::data
