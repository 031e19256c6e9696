// All keys of a configuration with their defaults and meanings, for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace fourfold::config {

/// One line a key, in columns: those whose names begin with `prefix`. Throws ConfigError that
/// suggests a near name when there is none.
std::string key_table(std::string_view prefix = {});

/// The table of docs/training.md.
std::string key_table_markdown();

}  // namespace fourfold::config
