// The file tokenizer.json of Hugging Face's tokenizers, for byte-level BPE.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "fourfold/data/tokenizer.hpp"

namespace fourfold::data {

inline constexpr const char* kTokenizerJson = "tokenizer.json";

/// The files beside it that are read and saved with it, if they exist: they name the token that
/// ends a text.
inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kSpecialTokens = "special_tokens_map.json";

/// Whether the file may be that of a byte-level BPE: false if it says that it is something else. A
/// damaged file says nothing.
bool may_be_byte_level(const std::string& path);

/// The tokenizer of the file, whatever its name. Throws ConfigError that names the file, the key
/// and its value when it is damaged or is not a byte-level BPE.
std::unique_ptr<Tokenizer> load_tokenizer_json(const std::string& path);

}  // namespace fourfold::data
