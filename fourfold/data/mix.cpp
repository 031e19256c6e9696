// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/mix.hpp"

#include <algorithm>
#include <cstring>

namespace fourfold::data {

void Digest::add(std::uint64_t number) {
  first_ = mix(first_ ^ number);
  second_ = mix(second_ + mix(~number));
}

void Digest::add(std::string_view text) {
  add(std::uint64_t{text.size()});
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t taken = std::min(text.size(), sizeof word);
    std::memcpy(&word, text.data(), taken);
    add(word);
    text.remove_prefix(taken);
  }
}

std::string Digest::text() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint64_t half : {first_, second_}) {
    for (int shift = 60; shift >= 0; shift -= 4) hex += kDigits[(half >> shift) & 15U];
  }
  return hex;
}

}  // namespace fourfold::data
