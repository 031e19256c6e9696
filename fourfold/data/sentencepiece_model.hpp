// A look into SentencePiece's model file before SentencePiece itself reads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fourfold::data {

/// Why a serialised model cannot be used here, empty if it can: it is damaged, not a BPE, cannot
/// write every byte, or changes the text. SentencePiece's API tells none of this. It also keeps
/// tables of replacements, which damage could make point anywhere, away from SentencePiece.
std::string why_unusable(std::string_view model);

}  // namespace fourfold::data
