// Defaults that depend on other keys. A default is adapted to given values, never the reverse.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/config/check.hpp"

namespace fourfold::config {

/// Changes each default that is not consistent with a given value, by as little as possible. Given
/// values are kept: `check` handles two given values that do not go together.
void settle_defaults(Draft& draft);

}  // namespace fourfold::config
