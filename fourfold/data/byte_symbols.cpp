// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/byte_symbols.hpp"

#include <array>
#include <cstdint>

namespace fourfold::data {

namespace {

constexpr unsigned kFirstSpare = 0x100;  // the first character that stands for an unprintable byte
constexpr unsigned kSpares = 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Tables {
  std::array<std::uint16_t, 256> character{};
  std::array<std::uint8_t, kSpares> spare{};  // the byte that U+0100 + index stands for
};

constexpr Tables make_tables() {
  Tables tables;
  unsigned spares = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (stands_for_itself(byte)) {
      tables.character[byte] = static_cast<std::uint16_t>(byte);
    } else {
      tables.spare[spares] = static_cast<std::uint8_t>(byte);
      tables.character[byte] = static_cast<std::uint16_t>(kFirstSpare + spares++);
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(kTables.character[255] == 255 && kTables.character[0xad] == kFirstSpare + 67);

}  // namespace

std::string to_symbols(std::string_view bytes) {
  std::string symbols;
  for (const char byte : bytes) {
    const unsigned character = kTables.character[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      symbols += static_cast<char>(character);
    } else {
      symbols += static_cast<char>(0xc0U | (character >> 6U));
      symbols += static_cast<char>(0x80U | (character & 0x3fU));
    }
  }
  return symbols;
}

std::optional<std::string> from_symbols(std::string_view symbols) {
  std::string bytes;
  for (std::size_t at = 0; at < symbols.size(); ++at) {
    unsigned character = static_cast<unsigned char>(symbols[at]);
    if (character >= 0x80) {
      // All symbols have one or two bytes in UTF-8.
      if (character < 0xc2 || character > 0xdf || ++at == symbols.size()) return std::nullopt;
      const unsigned second = static_cast<unsigned char>(symbols[at]);
      if ((second & 0xc0U) != 0x80U) return std::nullopt;
      character = ((character & 0x1fU) << 6U) | (second & 0x3fU);
    }
    if (character < kFirstSpare) {
      if (!stands_for_itself(character)) return std::nullopt;
      bytes += static_cast<char>(character);
    } else {
      if (character >= kFirstSpare + kSpares) return std::nullopt;
      bytes += static_cast<char>(kTables.spare[character - kFirstSpare]);
    }
  }
  return bytes;
}

}  // namespace fourfold::data
