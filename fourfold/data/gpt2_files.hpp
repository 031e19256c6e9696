// The files of a GPT-2 tokenizer, in Hugging Face's format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold::data {

/// `left` followed by `right` becomes `result`.
struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t result = 0;

  bool operator==(const Merge&) const = default;
};

/// The content of the files, checked: texts differ, every byte is a token, every merge joins two
/// tokens to the token of their joined text, and no pair of tokens is merged twice.
struct Gpt2Files {
  std::vector<std::string> texts;  ///< the bytes of each token
  std::vector<Merge> merges;       ///< in the order of priority
  std::int32_t end_of_text = -1;

  bool operator==(const Gpt2Files&) const = default;
};

/// Both functions read a folder. They throw ConfigError when its files are damaged, or belong to a
/// tokenizer that cuts text into words in another way than GPT-2.
Gpt2Files read_vocabulary_and_merges(const std::string& folder);
Gpt2Files read_tokenizer_json(const std::string& folder);

/// Writes vocab.json, merges.txt and tokenizer_config.json. Throws IoError.
void save_gpt2(const Gpt2Files& files, const std::string& folder);

}  // namespace fourfold::data
