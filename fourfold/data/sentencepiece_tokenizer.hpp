// A BPE by SentencePiece, from its model file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "fourfold/data/tokenizer.hpp"

namespace fourfold::data {

/// The file that holds the model.
inline constexpr const char* kSentencePieceFile = "tokenizer.model";

/// From a serialised model; `origin` names it in messages. Throws ConfigError when it is damaged,
/// or no BPE, or changes the text (Llama 2's puts a space before it, for one).
std::unique_ptr<Tokenizer> make_sentencepiece(std::string model, const std::string& origin);

/// From the file in `folder`, likewise.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& folder);

}  // namespace fourfold::data
