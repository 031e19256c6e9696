// The two files of a GPT-2 tokenizer, in Hugging Face's format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/data/bpe_model.hpp"

namespace fourfold::data {

/// Reads vocab.json and merges.txt of a folder. Throws ConfigError when the files are damaged, or
/// belong to a tokenizer that cuts text into words in another way than GPT-2.
BpeModel read_vocabulary_and_merges(const std::string& folder);

/// Writes vocab.json, merges.txt and tokenizer_config.json. Throws IoError.
void save_gpt2(const BpeModel& model, const std::string& folder);

}  // namespace fourfold::data
