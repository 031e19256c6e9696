// A BPE tokenizer that uses SentencePiece and its model file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "fourfold/data/tokenizer.hpp"

namespace fourfold::data {

/// The file that holds the model.
inline constexpr const char* kSentencePieceFile = "tokenizer.model";

/// Makes a tokenizer from a serialised model; `origin` names it in messages. Throws ConfigError
/// when the model is damaged, is no BPE, or changes the text (Llama 2's puts a space before it, for
/// example).
std::unique_ptr<Tokenizer> make_sentencepiece(std::string model, const std::string& origin);

/// The same from the file in `folder`.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::string& folder);

}  // namespace fourfold::data
