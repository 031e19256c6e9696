// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/words.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <algorithm>
#include <cstdint>
#include <limits>
#include <pcre2.h>

#include "fourfold/base/check.hpp"
#include "fourfold/data/split_pattern.hpp"
#include "fourfold/data/utf8.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

constexpr std::size_t kLongestPattern = 4096;
constexpr std::size_t kMostShown = 100;  // bytes of a pattern in a message

// A usual pattern takes a few steps for each byte, even of a text of spaces only.
constexpr std::size_t kSteps = 100'000;
constexpr std::size_t kStepsPerByte = 16;
constexpr std::uint32_t kMostKib = 64 << 10;  // of memory for backtracking

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

class WordCutter::Pattern {
 public:
  explicit Pattern(const std::string& pattern) : name_(pattern) {
    if (pattern.size() > kLongestPattern) {
      throw ConfigError(concat("it has more than ", kLongestPattern, " bytes"));
    }
    const std::string text = to_pcre2(pattern);
    int error = 0;
    PCRE2_SIZE where = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF,
                              &error, &where, nullptr));
    if (!code_) throw ConfigError("it is wrong: " + message(error));
    std::uint32_t may_be_empty = 0;
    pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &may_be_empty);
    if (may_be_empty != 0) throw ConfigError("it may match an empty text");
    // Where no code can be compiled for the processor, PCRE2 interprets the pattern.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }

  /// Appends the words of `text`, which must be UTF-8.
  void cut(std::string_view text, std::vector<std::string_view>& words) const {
    const std::unique_ptr<pcre2_match_data, Free> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    const std::unique_ptr<pcre2_match_context, Free> limits(pcre2_match_context_create(nullptr));
    FOURFOLD_CHECK(match && limits, "PCRE2 is out of memory");
    const std::size_t steps = std::min<std::size_t>(kSteps + kStepsPerByte * text.size(),
                                                    std::numeric_limits<std::int32_t>::max());
    pcre2_set_match_limit(limits.get(), static_cast<std::uint32_t>(steps));
    pcre2_set_heap_limit(limits.get(), kMostKib);
    const auto find = [&](std::size_t from, std::uint32_t options) {
      // The text is known to be UTF-8. Checking it at every word would read the whole rest.
      return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | options, match.get(), limits.get());
    };
    std::size_t at = 0;
    while (at < text.size()) {
      int found = find(at, 0);
      // Compiled code has a small stack, interpretation the heap.
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = find(at, PCRE2_NO_JIT);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) refuse(found);
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      FOURFOLD_CHECK(at <= range[0] && range[0] < range[1], "PCRE2 matched nothing at ", at);
      if (range[0] > at) words.push_back(text.substr(at, range[0] - at));
      words.push_back(text.substr(range[0], range[1] - range[0]));
      at = range[1];
    }
    if (at < text.size()) words.push_back(text.substr(at));
  }

 private:
  static std::string message(int error) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return reinterpret_cast<const char*>(text);
  }

  [[noreturn]] void refuse(int error) const {
    const std::string_view begin = std::string_view(name_).substr(
        0, character_border(name_, std::min(kMostShown, name_.size())));
    throw ConfigError(one_line(concat("the tokenizer's pattern ", begin,
                                      " cannot be used on this text: ", message(error))));
  }

  std::string name_;
  std::unique_ptr<pcre2_code, Free> code_;
};

WordCutter::WordCutter(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    patterns_.push_back(std::make_unique<Pattern>(pattern));
  }
}

WordCutter::~WordCutter() = default;

std::vector<std::string_view> WordCutter::cut(std::string_view text) const {
  std::vector<std::string_view> words;
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t valid = valid_length(text);
    const std::size_t first = words.size();
    if (valid > 0) words.push_back(text.substr(0, valid));
    for (const auto& pattern : patterns_) {
      parts.assign(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
      words.resize(first);
      for (const std::string_view part : parts) pattern->cut(part, words);
    }
    text.remove_prefix(valid);
    std::size_t invalid = 0;
    while (invalid < text.size() && character_length(text.substr(invalid)) == 0) ++invalid;
    if (invalid > 0) words.push_back(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
  return words;
}

}  // namespace fourfold::data
