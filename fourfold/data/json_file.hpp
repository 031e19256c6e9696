// JSON of files that strangers made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace fourfold::data {

/// Parses a JSON object; `path` is for messages. Throws ConfigError for anything else, and for
/// objects that are nested deeper or have more values than any tokenizer's file, since they would
/// need much more memory than the text has.
nlohmann::json parse_object(const std::string& text, const std::string& path);

/// The member, or null when there is none or when `object` is no object.
const nlohmann::json& member(const nlohmann::json& object, const char* name);

/// The value as a few characters of one line.
std::string shown(const nlohmann::json& value);

}  // namespace fourfold::data
