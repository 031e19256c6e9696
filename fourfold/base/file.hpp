// Files whose paths a user gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fourfold {

/// Throws ConfigError that names `option` unless the file can be written. Leaves nothing behind.
/// Call it before long work whose result is written there.
void check_writable(const std::string& option, const std::string& path);

/// Waits until a file, or the names in a folder, would survive a failure of the machine. Returns
/// the number of the error, or 0. What cannot be waited for, such as a pipe, is no error.
int sync_to_disk(const std::string& path);

/// Writes the whole text, or throws IoError and leaves the file as it was. When it returns, the
/// text is on the disk.
void write_text(const std::string& path, const std::string& text);

}  // namespace fourfold
