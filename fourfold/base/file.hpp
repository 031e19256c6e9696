// Files whose paths a user gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fourfold {

/// Throws ConfigError that names `option` unless the file can be written. Leaves nothing behind.
/// Call it before long work whose result is written there.
void check_writable(const std::string& option, const std::string& path);

/// Writes the whole text, or throws IoError and leaves the file as it was.
void write_text(const std::string& path, const std::string& text);

}  // namespace fourfold
