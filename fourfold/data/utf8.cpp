// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace fourfold::data {

namespace {

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
}

}  // namespace

std::size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4 || !continues(text, 1)) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  if (first < 0xe0) return 2;
  if (first < 0xf0) {
    const bool overlong = first == 0xe0 && second < 0xa0;
    const bool surrogate = first == 0xed && second >= 0xa0;
    return overlong || surrogate || !continues(text, 2) ? 0 : 3;
  }
  const bool overlong = first == 0xf0 && second < 0x90;
  const bool beyond = first == 0xf4 && second >= 0x90;
  return overlong || beyond || !continues(text, 2) || !continues(text, 3) ? 0 : 4;
}

std::size_t valid_length(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080U;
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t word = kHighBits;
    if (text.size() - at >= sizeof word) std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & kHighBits) == 0) {
      at += sizeof word;
      continue;
    }
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::size_t character_border(std::string_view text, std::size_t at) {
  for (std::size_t back = 0; back < 4 && back <= at; ++back) {
    const std::size_t border = at - back;
    if (!continues(text, border)) {
      // Only a character that really extends beyond `at` moves the border.
      const bool within = border + character_length(text.substr(border)) > at;
      return back == 0 || within ? border : at;
    }
  }
  return at;
}

}  // namespace fourfold::data
