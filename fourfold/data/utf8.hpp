// The boundaries of characters in text that may not be UTF-8 at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace fourfold::data {

/// The length in bytes of the character that `text` begins with. It is 0 when the text does not
/// begin with a valid character: when it is empty, cut off, overlong, a surrogate or beyond
/// U+10FFFF.
std::size_t character_length(std::string_view text);

/// The length of the longest beginning of `text` that is valid UTF-8.
std::size_t valid_length(std::string_view text);

/// The largest number of bytes up to `at` (at most the text's size) that does not end inside a
/// character of valid text. It is `at` itself where the text is not UTF-8.
std::size_t character_border(std::string_view text, std::size_t at);

}  // namespace fourfold::data
