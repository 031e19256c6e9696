// The tokens that begin and end a generated text, as Hugging Face's generation_config.json and
// config.json name them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold::checkpoint {

/// The tokens that a model's folder names for generating text.
struct GenerationTokens {
  std::int64_t begin = -1;         ///< begins a text without a prompt; -1: none is named
  std::vector<std::int64_t> ends;  ///< each of them ends a text
};

/// The text of generation_config.json; -1 where there is no such token.
std::string generation_config(std::int64_t begin_of_text, std::int64_t end_of_text);

/// Reads the tokens from generation_config.json. What that file does not name is read from
/// config.json. Tokens that are not in the vocabulary are left out. Throws ConfigError when a token
/// is not a whole number.
GenerationTokens read_generation_tokens(const std::string& folder, std::int64_t vocabulary);

}  // namespace fourfold::checkpoint
