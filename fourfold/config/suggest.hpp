// Messages about a name that is no section or key, which is most often a typing mistake.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::config {

/// The one of `names` that was probably meant by `name`. Nothing when no name is similar.
std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& names);

/// "unknown section [modle]; did you mean [model]?", or a list of all sections when none is
/// similar.
std::string unknown_section(std::string_view name);

/// "unknown key train.step; did you mean train.steps?", or a list of all keys of the section when
/// none is similar. The section must exist.
std::string unknown_key(std::string_view section, std::string_view name);

/// The same for a key outside of any section.
std::string misplaced_key(std::string_view name);

}  // namespace fourfold::config
