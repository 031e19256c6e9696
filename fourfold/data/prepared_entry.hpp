// What a preparation leaves in the cache.
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

/// What is in the entry's folder; nothing when there is none or when it is damaged: when a file
/// lacks, has another length, or the tokenizer is not the one that was written.
std::optional<Prepared> load_entry(const std::string& folder);

}  // namespace fourfold::data
