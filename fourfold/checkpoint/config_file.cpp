// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/config_file.hpp"

#include <filesystem>

#include "fourfold/formats/mapped_file.hpp"

namespace fourfold::checkpoint {

namespace {

/// A value of an untrusted file, as a few characters of one line.
std::string in_a_line(const Json& value) {
  constexpr std::size_t kMost = 40;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

/// Returns nothing unless the value is a whole number of at least 1.
std::optional<std::int64_t> whole_number(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  // Numbers that only fit into an unsigned type become negative here.
  const auto number = value.get<std::int64_t>();
  return number >= 1 ? std::optional(number) : std::nullopt;
}

}  // namespace

ConfigFile::ConfigFile(const std::string& folder, const char* name) : path_(folder + "/" + name) {
  constexpr std::size_t kMostBytes = 1 << 20;
  constexpr int kDeepest = 8;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw ConfigError(concat(folder, " is not a folder with a model"));
  }
  if (!std::filesystem::exists(path_, error)) {
    throw ConfigError(concat(folder, " holds no model: there is no ", name, " in it"));
  }
  const formats::MappedFile file(path_);
  if (file.bytes().size() > kMostBytes) {
    throw ConfigError(concat(path_, " has ", file.bytes().size(), " bytes, more than the ",
                             kMostBytes, " that a model's configuration may have"));
  }
  const auto* begin = reinterpret_cast<const char*>(file.bytes().data());
  // Deeper levels are left out: destroying them would need an equally deep stack.
  const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth < kDeepest; };
  json_ = Json::parse(begin, begin + file.bytes().size(), shallow, false);
  if (!json_.is_object()) throw ConfigError(path_ + " is damaged: it is not a JSON object");
}

std::int64_t ConfigFile::size(const char* key, std::int64_t in_weights) const {
  const auto found = json_.find(key);
  if (found != json_.end() && whole_number(*found) == in_weights) return in_weights;
  throw ConfigError(concat(path_, ": ", key,
                           found == json_.end() ? " is missing" : " = " + in_a_line(*found),
                           ", but the weights beside it have ", in_weights));
}

std::int64_t ConfigFile::divisor(const char* key, const char* of, std::int64_t number) const {
  const auto found = json_.find(key);
  const auto value = found == json_.end() ? std::nullopt : whole_number(*found);
  if (value && number % *value == 0) return *value;
  throw ConfigError(concat(path_, ": ", key,
                           found == json_.end() ? " is missing" : " = " + in_a_line(*found),
                           ", but it must be a whole number that divides ", of, " = ", number));
}

std::int64_t ConfigFile::at_most(const char* key, std::int64_t most) const {
  const auto found = json_.find(key);
  const auto value = found == json_.end() ? std::nullopt : whole_number(*found);
  if (value && *value <= most) return *value;
  throw ConfigError(concat(path_, ": ", key,
                           found == json_.end() ? " is missing" : " = " + in_a_line(*found),
                           ", but it must be a whole number from 1 to ", most));
}

std::vector<std::int64_t> ConfigFile::numbers(const char* key, std::int64_t most,
                                              std::size_t count) const {
  const auto found = json_.find(key);
  std::vector<std::int64_t> all;
  const bool list = found != json_.end() && found->is_array() && found->size() <= count;
  for (std::size_t i = 0; list && i < found->size(); ++i) {
    const auto value = whole_number((*found)[i]);
    if (value && *value <= most) all.push_back(*value);
  }
  if (list && all.size() == found->size()) return all;
  throw ConfigError(concat(path_, ": ", key, found == json_.end() ? " is missing" : " is wrong",
                           ": it must be a list of at most ", count, " whole numbers from 1 to ",
                           most));
}

void ConfigFile::expect_json(const char* key, const Json& value) const {
  const auto found = json_.find(key);
  if (found == json_.end() || found->is_null() || *found == value) return;
  throw ConfigError(concat(path_, ": ", key, " = ", in_a_line(*found), ", but only ", value.dump(),
                           " is supported"));
}

bool ConfigFile::flag(const char* key, bool otherwise) const {
  const auto found = json_.find(key);
  return found != json_.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

double ConfigFile::number(const char* key, double otherwise) const {
  const auto found = json_.find(key);
  if (found == json_.end() || found->is_null()) return otherwise;
  if (found->is_number()) return found->get<double>();
  throw ConfigError(
      concat(path_, ": ", key, " = ", in_a_line(*found), ", but it must be a number"));
}

std::string ConfigFile::text(const char* key) const {
  const auto found = json_.find(key);
  return found != json_.end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::int64_t> ConfigFile::tokens(const char* key, std::int64_t vocabulary) const {
  const auto found = json_.find(key);
  if (found == json_.end() || found->is_null()) return {};
  const Json list = found->is_array() ? *found : Json::array({*found});
  std::vector<std::int64_t> all;
  for (const Json& token : list) {
    if (!token.is_number_integer()) {
      throw ConfigError(concat(path_, ": ", key, " = ", in_a_line(*found),
                               ", but it must be a token or a list of tokens"));
    }
    // Numbers that only fit into an unsigned type become negative here.
    const auto number = token.get<std::int64_t>();
    if (number >= 0 && number < vocabulary) all.push_back(number);
  }
  return all;
}

std::string ConfigFile::shown(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() ? "nothing" : in_a_line(*found);
}

const Json* ConfigFile::object(const char* key) const {
  const auto found = json_.find(key);
  return found != json_.end() && found->is_object() ? &*found : nullptr;
}

}  // namespace fourfold::checkpoint
