// Merges the bytes of a word to tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fourfold/data/bpe_model.hpp"

namespace fourfold::data {

/// Each word begins as its bytes. Then neighbours are merged: the pair of highest priority first,
/// and of equal pairs the leftmost first.
class Merger {
 public:
  /// The token of each byte.
  using ByteTokens = std::array<std::int32_t, 256>;

  Merger(const ByteTokens& byte_tokens, const std::vector<Merge>& merges);

  /// Merges words one after the other and keeps its memory between them. One thread may use it.
  class Word;

 private:
  static constexpr std::int32_t kNone = -1;

  struct Rule {
    std::uint64_t pair = kNoPair;
    std::int32_t rank = 0;  // lower ranks are merged first
    std::int32_t result = kNone;
  };
  static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

  const Rule* find(std::int32_t left, std::int32_t right) const;
  std::size_t slot(std::uint64_t pair) const;

  ByteTokens byte_tokens_;
  std::vector<Rule> rules_;  // a hash table; its size is a power of two
};

class Merger::Word {
 public:
  explicit Word(const Merger& merger) : merger_(merger) {}

  /// Appends the tokens of `text`, which must not be empty and have less than 2^31 bytes.
  void encode(std::string_view text, std::vector<std::int32_t>& tokens);

 private:
  /// Words of up to this many bytes are searched for the best pair after each merge, which is
  /// faster than a heap.
  static constexpr std::size_t kShort = 48;

  struct Part {
    std::int32_t token = 0;  // kNone once it has been merged into the one before
    std::int32_t before = kNone;
    std::int32_t next = kNone;
  };
  struct Candidate {
    std::int32_t rank = 0;
    std::int32_t at = 0;  // the left part
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int32_t result = 0;

    auto operator<=>(const Candidate&) const = default;
  };

  void encode_short(std::string_view text, std::vector<std::int32_t>& tokens) const;
  void encode_long(std::string_view text, std::vector<std::int32_t>& tokens);

  Part& part(std::int32_t at) { return parts_[static_cast<std::size_t>(at)]; }
  void offer(std::int32_t at);
  bool still_there(const Candidate& candidate);
  void merge(const Candidate& candidate);

  const Merger& merger_;
  std::vector<Part> parts_;
  std::vector<Candidate> heap_;
};

}  // namespace fourfold::data
