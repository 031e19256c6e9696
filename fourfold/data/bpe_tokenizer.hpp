// Byte-level BPE, as GPT-2 and Llama 3 have it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>

#include "fourfold/data/added_finder.hpp"
#include "fourfold/data/bpe_model.hpp"
#include "fourfold/data/merger.hpp"
#include "fourfold/data/tokenizer.hpp"
#include "fourfold/data/words.hpp"

namespace fourfold::data {

/// A file of a tokenizer.
struct StoredFile {
  std::string name;
  std::string content;
};

/// Added tokens are found first, the text between them is cut into words, and the bytes of each
/// word are merged. Without added tokens the text <|endoftext|> is treated like any other text:
/// only end_of_text() gives the token.
class BpeTokenizer : public Tokenizer {
 public:
  /// save() writes `files` as they are. If there are none, it writes GPT-2's files, which can only
  /// describe GPT-2's words without added tokens. Throws ConfigError for unusable patterns.
  explicit BpeTokenizer(BpeModel model, std::vector<StoredFile> files = {});

  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocabulary() const override;
  std::int32_t end_of_text() const override { return model_.end_of_text; }
  std::int32_t begin_of_text() const override { return model_.begin_of_text; }
  void save(const std::string& folder) const override;

 private:
  /// Of the tokens that merges make: bytes, and words if they are looked up.
  Merger::ByteTokens learned_tokens();
  void encode_words(std::string_view text, Merger::Word& word,
                    std::vector<std::int32_t>& tokens) const;

  const BpeModel model_;
  const std::vector<StoredFile> files_;
  std::unordered_map<std::string_view, std::int32_t> whole_words_;
  const Merger merger_;
  const WordCutter cutter_;
  AddedFinder early_;
  AddedFinder late_;
};

}  // namespace fourfold::data
