// Compares a configuration with one that was written before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fourfold/config/config.hpp"
#include "fourfold/config/keys.hpp"

namespace fourfold::config {

/// A key with two values, as they are written in TOML.
struct Difference {
  std::string key;  ///< "model.layers"
  std::string before;
  std::string now;
};

/// The first key that matters and has another value than in `text`, which `to_toml` has written.
/// Keys that one of both does not have are left out. Throws ConfigError that begins with `file`
/// when the text is not TOML.
std::optional<Difference> first_difference(std::string_view text, std::string_view file,
                                           const Config& now,
                                           const std::function<bool(const Key&)>& matters);

}  // namespace fourfold::config
