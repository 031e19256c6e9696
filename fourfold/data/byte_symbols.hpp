// GPT-2's way to write any byte as a visible character in vocab.json and merges.txt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fourfold::data {

/// One character a byte, in UTF-8: printable bytes of Latin-1 stand for themselves, the others are
/// U+0100, U+0101, ... in their order.
std::string to_symbols(std::string_view bytes);

/// The bytes behind the symbols; nothing when a character is none of them.
std::optional<std::string> from_symbols(std::string_view symbols);

}  // namespace fourfold::data
