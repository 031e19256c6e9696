// Reads config.json and similar files of a model's folder, which come from strangers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::checkpoint {

using Json = nlohmann::ordered_json;

/// Every error is a ConfigError that names the file and the key. The values are only claims until
/// the weights confirm them.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& folder, const char* name = "config.json");

  /// A size that the weights also show.
  std::int64_t size(const char* key, std::int64_t in_weights) const;
  /// A whole number that divides another one.
  std::int64_t divisor(const char* key, const char* of, std::int64_t number) const;
  /// A whole number from 1 to `most`.
  std::int64_t at_most(const char* key, std::int64_t most) const;
  /// A list of at most `count` whole numbers, each from 1 to `most`; may be empty.
  std::vector<std::int64_t> numbers(const char* key, std::int64_t most, std::size_t count) const;
  /// If the key is given it must have this value. The default is the architecture's own value.
  template <class Value>
  void expect(const char* key, const Value& value) const {
    expect_json(key, Json(value));
  }
  bool flag(const char* key, bool otherwise) const;
  /// A number; `otherwise` if the key is missing.
  double number(const char* key, double otherwise) const;
  std::string text(const char* key) const;
  /// One token or a list of tokens; none if the key is missing or null. Those that are not in the
  /// vocabulary are left out: small models often keep the tokens of a large one in their files.
  std::vector<std::int64_t> tokens(const char* key, std::int64_t vocabulary) const;
  bool has(const char* key) const { return json_.contains(key); }
  /// The value of a key as a few characters of one line.
  std::string shown(const char* key) const;
  /// An object within the file, or null.
  const Json* object(const char* key) const;
  const std::string& path() const { return path_; }

 private:
  void expect_json(const char* key, const Json& value) const;

  std::string path_;
  Json json_;
};

}  // namespace fourfold::checkpoint
