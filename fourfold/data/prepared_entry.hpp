// The entry of a preparation in the cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fourfold/data/prepare.hpp"

namespace fourfold::data {

/// The parts of an entry.
inline constexpr const char* kTrainFolder = "train";
inline constexpr const char* kValidationFolder = "validation";
inline constexpr const char* kTokenizerFolder = "tokenizer";

/// Writes the description of a complete entry into its folder. Throws IoError.
void describe_entry(const Prepared& prepared, const std::string& folder);

/// The content of the entry's folder. Nothing when there is none or when it is damaged: when a file
/// is missing, has another length, or the tokenizer is not the one that was written.
std::optional<Prepared> load_entry(const std::string& folder);

}  // namespace fourfold::data
