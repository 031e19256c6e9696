// Characters, cuts between them, symbols of bytes and digests.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/utf8.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "fourfold/data/byte_symbols.hpp"
#include "fourfold/data/mix.hpp"

namespace fourfold::test {
namespace {

using data::character_border;
using data::character_length;
using data::Digest;
using data::from_symbols;
using data::to_symbols;
using data::valid_length;

std::string encode(unsigned c) {
  const auto byte = [](unsigned value) { return std::string(1, static_cast<char>(value)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) return byte(0xc0 | (c >> 6)) + byte(0x80 | (c & 63));
  if (c < 0x10000) {
    return byte(0xe0 | (c >> 12)) + byte(0x80 | ((c >> 6) & 63)) + byte(0x80 | (c & 63));
  }
  return byte(0xf0 | (c >> 18)) + byte(0x80 | ((c >> 12) & 63)) + byte(0x80 | ((c >> 6) & 63)) +
         byte(0x80 | (c & 63));
}

TEST(Utf8, EveryCharacterAndNoSurrogate) {
  for (unsigned c = 0; c < 0x120000; ++c) {
    const std::string text = encode(c);
    const bool valid = c < 0x110000 && (c < 0xd800 || c >= 0xe000);
    ASSERT_EQ(character_length(text), valid ? text.size() : 0) << c;
    if (valid && text.size() > 1) {
      ASSERT_EQ(character_length(text.substr(0, text.size() - 1)), 0U) << c;
    }
  }
}

TEST(Utf8, RefusesOverlongAndStrayBytes) {
  for (const char* bad : {"\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf",
                          "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\x80", "\xbf",
                          "\xf5\x80\x80\x80", "\xff", "\xc3(", "\xe2\x82(", "\xf0\x9f\x98("}) {
    EXPECT_EQ(character_length(bad), 0U) << bad;
  }
  EXPECT_EQ(character_length(""), 0U);
}

TEST(Utf8, LongestValidBeginning) {
  const std::string good =
      "plain text that is long, \xc3\xa9, \xe6\xbc\xa2, \xf0\x9f\x98\x80 and more text";
  EXPECT_EQ(valid_length(good), good.size());
  EXPECT_EQ(valid_length(good + "\xff" + good), good.size());
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = '\xfe';
    const std::size_t length = valid_length(bad);
    ASSERT_LE(length, at);
    ASSERT_LE(at - length, 3U) << "only the character around it is lost";
  }
}

TEST(Utf8, BordersLieBetweenCharacters) {
  const std::string text = "a\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80z";
  const std::size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
  for (std::size_t at = 0; at <= text.size(); ++at) {
    EXPECT_EQ(character_border(text, at), expected[at]) << at;
  }
  EXPECT_EQ(character_border("\x80\x80\x80\x80\x80\x80\x80\x80", 6), 6U) << "no character at all";
  EXPECT_EQ(character_border("abc\x80\x80\x80", 4), 4U) << "nothing that reaches over the border";
}

TEST(ByteSymbols, AreThoseOfGpt2) {
  EXPECT_EQ(to_symbols(" "), "\xc4\xa0");                // U+0120
  EXPECT_EQ(to_symbols("\n"), "\xc4\x8a");               // U+010A
  EXPECT_EQ(to_symbols(std::string(1, 0)), "\xc4\x80");  // U+0100
  EXPECT_EQ(to_symbols("\x7f"), "\xc4\xa1");             // U+0121: the first after the space
  EXPECT_EQ(to_symbols("\xa0"), "\xc5\x82");             // U+0142
  EXPECT_EQ(to_symbols("\xad"), "\xc5\x83");             // U+0143: the last
  EXPECT_EQ(to_symbols("!~"), "!~");
  EXPECT_EQ(to_symbols("\xa1\xff"), "\xc2\xa1\xc3\xbf");
}

TEST(ByteSymbols, AreABijection) {
  std::set<std::string> all;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    all.insert(to_symbols(text));
    EXPECT_EQ(from_symbols(to_symbols(text)), text) << byte;
  }
  EXPECT_EQ(all.size(), 256U);
  for (const char* other :
       {" ", "\n", "\xc5\x84", "\xc2\xad", "\xe6\xbc\xa2", "\xc4", "\xc4(", "\xff"}) {
    EXPECT_EQ(from_symbols(other), std::nullopt) << other;
  }
}

TEST(Mix, NeverChanges) {
  // The first values of SplitMix64 from state 0, as published.
  EXPECT_EQ(data::mix(0), 0xe220a8397b1dcdafU);
  EXPECT_EQ(data::mix(0x9e3779b97f4a7c15U), 0x6e789e6aa1b965f4U);
}

std::string digest(const std::vector<std::string>& parts) {
  Digest all;
  for (const std::string& part : parts) all.add(part);
  return all.text();
}

TEST(Digest, TellsPartsApart) {
  std::set<std::string> all;
  for (const auto& parts : std::vector<std::vector<std::string>>{{},
                                                                 {""},
                                                                 {"a"},
                                                                 {"a", ""},
                                                                 {"ab", "c"},
                                                                 {"a", "bc"},
                                                                 {"abc"},
                                                                 {std::string("a\0", 2)},
                                                                 {"12345678"},
                                                                 {"123456789"},
                                                                 {"1234567", "89"},
                                                                 {"c", "ab"}}) {
    const std::string text = digest(parts);
    EXPECT_EQ(text.size(), 32U);
    EXPECT_TRUE(all.insert(text).second);
    all.insert(text.substr(0, 16));
    all.insert(text.substr(16));
  }
  EXPECT_EQ(all.size(), 36U) << "both halves differ as well";
  EXPECT_EQ(digest({"a", "b"}), digest({"a", "b"}));
}

}  // namespace
}  // namespace fourfold::test
