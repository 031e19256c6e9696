// A byte-level BPE of 267 tokens, as GPT-2's files and as tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/data/byte_symbols.hpp"
#include "fourfold/data/tokenizer.hpp"

namespace fourfold::test {

using Ids = std::vector<std::int32_t>;

/// Bytes are tokens 0 to 255 in the order of their values; the merges make 256, 257, ...
inline const std::vector<std::pair<std::string, std::string>> kMerges = {
    {"l", "o"}, {"lo", "w"}, {"e", "r"}, {"Ġ", "low"}, {"n", "e"},
    {"a", "a"}, {"#", "#"},  {"x", "y"}, {"z", "w"},   {"xy", "zw"}};
enum : std::int32_t { kLo = 256, kLow, kEr, kSpaceLow, kNe, kAa, kHashes, kXy, kZw, kXyzw, kEnd };

inline nlohmann::json vocabulary() {
  nlohmann::json all = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    all[data::to_symbols(std::string(1, static_cast<char>(byte)))] = byte;
  }
  std::int32_t next = 256;
  for (const auto& [left, right] : kMerges) all[left + right] = next++;
  return all;
}

inline std::string merge_lines() {
  std::string lines = "#version: 0.2\n";
  for (const auto& [left, right] : kMerges) lines += left + " " + right + "\n";
  return lines;
}

inline nlohmann::json tokenizer_json() {
  nlohmann::json merges = nlohmann::json::array();
  for (const auto& [left, right] : kMerges) merges.push_back(left + " " + right);
  return {{"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"added_tokens", {{{"id", kEnd}, {"content", "<|endoftext|>"}}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary()}, {"merges", merges}}}};
}

inline void expect_usual(const data::Tokenizer& tokenizer) {
  EXPECT_EQ(tokenizer.vocabulary(), kEnd + 1);
  EXPECT_EQ(tokenizer.end_of_text(), kEnd);
  EXPECT_EQ(tokenizer.encode("lower low"), (Ids{kLow, kEr, kSpaceLow}));
  EXPECT_EQ(tokenizer.encode(" lower"), (Ids{kSpaceLow, kEr}));
  EXPECT_EQ(tokenizer.encode("new"), (Ids{kNe, 'w'}));
  EXPECT_EQ(tokenizer.encode("ner"), (Ids{'n', kEr})) << "er is more urgent than ne";
  EXPECT_EQ(tokenizer.encode("l o"), (Ids{'l', ' ', 'o'})) << "merges stay in words";
  EXPECT_EQ(tokenizer.encode("a aaa aaaa"), (Ids{'a', ' ', kAa, 'a', ' ', kAa, kAa}));
  EXPECT_EQ(tokenizer.encode("xyzwxy"), (Ids{kXyzw, kXy})) << "merged parts merge again";
  EXPECT_EQ(tokenizer.encode("###"), (Ids{kHashes, '#'}));
  EXPECT_EQ(tokenizer.encode("\xc3\xa9\n"), (Ids{0xc3, 0xa9, '\n'}));
  EXPECT_EQ(tokenizer.encode(""), Ids());
  EXPECT_EQ(tokenizer.decode(Ids{kLow, kEr, kSpaceLow, kEnd, '\n'}), "lower low<|endoftext|>\n");
}

}  // namespace fourfold::test
