// The texts of tokens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fourfold::data {

/// Joins the texts of the tokens. Throws ConfigError for a token beyond the table.
std::string join_texts(const std::vector<std::string>& texts, std::span<const std::int32_t> tokens);

}  // namespace fourfold::data
