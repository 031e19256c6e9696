// All keys of a configuration with their defaults and meanings, for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fourfold::config {

/// One line for each key whose name begins with `prefix`, in columns. Throws ConfigError that
/// suggests a similar name when there is no such key.
std::string key_table(std::string_view prefix = {});

/// The table of docs/training.md.
std::string key_table_markdown();

}  // namespace fourfold::config
