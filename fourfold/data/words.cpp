// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/words.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "fourfold/base/check.hpp"
#include "fourfold/data/utf8.hpp"

namespace fourfold::data {

namespace {

// Unicode's white space, written out: \s of PCRE2 includes U+180E, which Unicode no longer does.
#define WHITE \
  R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
constexpr const char* kWord = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WHITE
                              "\\p{L}\\p{N}]+|[" WHITE "]+(?![^" WHITE "])|[" WHITE "]+";
#undef WHITE

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

struct WordCutter::Pattern {
  Pattern() {
    int error = 0;
    PCRE2_SIZE where = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kWord), PCRE2_ZERO_TERMINATED, PCRE2_UTF,
                         &error, &where, nullptr);
    FOURFOLD_CHECK(code != nullptr, "PCRE2 error ", error, " at ", where);
  }
  ~Pattern() { pcre2_code_free(code); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  pcre2_code* code = nullptr;
};

WordCutter::WordCutter() : pattern_(std::make_unique<Pattern>()) {}
WordCutter::~WordCutter() = default;

void WordCutter::cut_valid(std::string_view text, std::vector<std::string_view>& words) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(pattern_->code, nullptr));
  FOURFOLD_CHECK(match != nullptr, "PCRE2 is out of memory");
  std::size_t at = 0;
  while (at < text.size()) {
    // The text is known to be UTF-8. Checking it at every word would read the whole rest each time.
    const int found =
        pcre2_match(pattern_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                    PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, match.get(), nullptr);
    FOURFOLD_CHECK(found > 0, "PCRE2 error ", found, " at byte ", at);
    const std::size_t end = pcre2_get_ovector_pointer(match.get())[1];
    words.push_back(text.substr(at, end - at));
    at = end;
  }
}

std::vector<std::string_view> WordCutter::cut(std::string_view text) const {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t valid = valid_length(text);
    cut_valid(text.substr(0, valid), words);
    text.remove_prefix(valid);
    std::size_t invalid = 0;
    while (invalid < text.size() && character_length(text.substr(invalid)) == 0) ++invalid;
    if (invalid > 0) words.push_back(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
  return words;
}

}  // namespace fourfold::data
