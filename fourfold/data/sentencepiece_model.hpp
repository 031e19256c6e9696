// Checks a SentencePiece model file before SentencePiece itself reads it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fourfold::data {

/// Why a serialised model cannot be used here; empty if it can. It may be damaged, not a BPE,
/// unable to write every byte, or change the text. SentencePiece's API reports none of this. The
/// check also keeps tables of replacements away from SentencePiece, since damage could make them
/// point anywhere.
std::string why_unusable(std::string_view model);

}  // namespace fourfold::data
