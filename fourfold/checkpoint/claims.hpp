// What the weights of a folder say of their model, against which the claims of config.json are
// checked. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fourfold/formats/safetensors_folder.hpp"

namespace fourfold::checkpoint {

/// The first of these names that the folder has; empty if it has none.
std::string name_in(const formats::SafetensorsFolder& files, const std::vector<std::string>& names);

/// The rows and columns of a table with one of these names. Throws ConfigError when there is none.
std::pair<std::int64_t, std::int64_t> table_shape(const formats::SafetensorsFolder& files,
                                                  const std::vector<std::string>& names,
                                                  const std::string& folder);
/// The number of blocks that have tensors, such as "h.11.ln_1.bias" for the prefix "h.".
std::int64_t blocks_in(const formats::SafetensorsFolder& files,
                       const std::vector<std::string>& prefixes);

}  // namespace fourfold::checkpoint
