// What is said about a file that cannot be used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace fourfold::formats {

/// For messages: 'text' on one line and of limited length, whatever a file contains.
std::string in_quotes(std::string_view text);

/// Throws the ConfigError for a file that is not as it should be: "PATH cannot be used: WHAT; ...".
[[noreturn]] void refuse_file(const std::filesystem::path& path, std::string_view what);

}  // namespace fourfold::formats
