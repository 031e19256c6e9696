// GPT-2's cutting of text into words. Merges never cross words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace fourfold::data {

/// The words are English endings ('s, 'll, ...), letters, digits and other signs, each with one
/// space before them, and white space. May be used by several threads at once.
class WordCutter {
 public:
  WordCutter();
  ~WordCutter();
  WordCutter(const WordCutter&) = delete;
  WordCutter& operator=(const WordCutter&) = delete;

  /// The words, which together are `text` again. A run of bytes that are not UTF-8 is a word, and
  /// the text on either side of it is cut as if it were alone.
  std::vector<std::string_view> cut(std::string_view text) const;

 private:
  struct Pattern;
  void cut_valid(std::string_view text, std::vector<std::string_view>& words) const;

  std::unique_ptr<Pattern> pattern_;
};

}  // namespace fourfold::data
