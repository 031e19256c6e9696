// Defaults that depend on other keys: a default gives way to what was given, never the reverse.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/config/check.hpp"

namespace fourfold::config {

/// Moves each default that does not go with a value that was given, by as little as makes them go
/// together. What was given stays: two given values that do not go together are left to `check`.
void settle_defaults(Draft& draft);

}  // namespace fourfold::config
