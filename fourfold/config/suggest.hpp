// What to say about a name that no section or key has: most often a slip of the fingers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::config {

/// The one of `names` that was probably meant by `name`; nothing when none is near.
std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& names);

/// "unknown section [modle]; did you mean [model]?", or with all sections when none is near.
std::string unknown_section(std::string_view name);

/// "unknown key train.step; did you mean train.steps?", or with all keys of the section when none
/// is near. The section is known.
std::string unknown_key(std::string_view section, std::string_view name);

/// The same for a key outside of any section.
std::string misplaced_key(std::string_view name);

}  // namespace fourfold::config
