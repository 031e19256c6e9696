// Translates the regular expressions of tokenizer.json, which are Oniguruma's, to PCRE2's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fourfold::data {

/// Takes the part of the syntax that means the same in both libraries once it is translated:
/// alternatives, groups, (?i: ), lookahead, lookbehind, the repeats ? * + {n,m}, their lazy and
/// possessive forms, sets of characters, \s, \d, and \p{ } of general categories and scripts. White
/// space becomes Unicode's own list: PCRE2's \s includes U+180E, which Unicode no longer does.
/// Throws ConfigError that names what is not taken. `pattern` must be UTF-8.
std::string to_pcre2(std::string_view pattern);

}  // namespace fourfold::data
