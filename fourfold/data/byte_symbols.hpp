// GPT-2's encoding of any byte as a visible character in vocab.json and merges.txt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fourfold::data {

/// One character for each byte, in UTF-8. Printable bytes of Latin-1 stand for themselves. The
/// others are U+0100, U+0101, ... in their order.
std::string to_symbols(std::string_view bytes);

/// The bytes that the symbols stand for. Nothing when a character is not a symbol.
std::optional<std::string> from_symbols(std::string_view symbols);

}  // namespace fourfold::data
