// GPT-2's byte-level BPE.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "fourfold/data/gpt2_files.hpp"
#include "fourfold/data/tokenizer.hpp"
#include "fourfold/data/words.hpp"

namespace fourfold::data {

/// Each word begins as its bytes. Then neighbours are merged: the pair of highest priority first,
/// and of equal pairs the leftmost first. The text <|endoftext|> is treated like any other text:
/// only end_of_text() gives the token.
class Gpt2Tokenizer : public Tokenizer {
 public:
  explicit Gpt2Tokenizer(Gpt2Files files);

  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocabulary() const override;
  std::int32_t end_of_text() const override { return files_.end_of_text; }
  void save(const std::string& folder) const override { save_gpt2(files_, folder); }

 private:
  struct Rule {
    std::int32_t rank = 0;  // lower ranks are merged first
    std::int32_t result = 0;
  };
  class Word;

  const Rule* find_rule(std::int32_t left, std::int32_t right) const;

  Gpt2Files files_;
  std::vector<std::int32_t> byte_tokens_;
  std::unordered_map<std::uint64_t, Rule> rules_;
  WordCutter cutter_;
};

}  // namespace fourfold::data
