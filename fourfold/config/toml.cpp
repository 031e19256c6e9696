// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/toml.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <toml++/toml.h>

#include "fourfold/base/check.hpp"

namespace fourfold::config {

namespace {

int line_of(const toml::source_region& source) {
  return static_cast<int>(source.begin.line);
}

/// Tables are not converted, since no key accepts one. Arrays are, as deep as the parser allows.
Value convert(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean:
      return {node.as_boolean()->get()};
    case toml::node_type::integer:
      return {node.as_integer()->get()};
    case toml::node_type::floating_point:
      return {node.as_floating_point()->get()};
    case toml::node_type::string:
      return {node.as_string()->get()};
    case toml::node_type::array: {
      std::vector<Value> items;
      for (const toml::node& item : *node.as_array()) items.push_back(convert(item));
      return {std::move(items)};
    }
    case toml::node_type::table:
      return {Other{"a table"}};
    default:
      return {Other{"a date or time"}};
  }
}

template <class Items>
void sort_by_line(Items& items) {
  std::stable_sort(items.begin(), items.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
}

Section section_of(const toml::key& key, const toml::node& node) {
  Section section{std::string(key.str()), line_of(key.source()), std::nullopt, {}};
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    section.value = convert(node);
    return section;
  }
  for (const auto& [name, item] : *table) {
    section.items.push_back({std::string(name.str()), convert(item), line_of(name.source())});
  }
  sort_by_line(section.items);
  return section;
}

/// The line with that number, counted from 1, without surrounding space. Empty beyond the end.
std::string line_at(std::string_view text, int number) {
  const auto lines = split(text, '\n');
  const auto index = static_cast<std::size_t>(number) - 1;
  return index < lines.size() ? std::string(trim(lines[index])) : "";
}

/// A hint for the most common mistake: missing quotes around a text.
std::string hint_for(std::string_view line) {
  const auto equals = line.find('=');
  if (equals == std::string_view::npos) return "";
  const std::string_view value = trim(line.substr(equals + 1));
  const bool word = !value.empty() && (std::isalpha(static_cast<unsigned char>(value[0])) != 0 ||
                                       value[0] == '/' || value[0] == '.');
  return word && value != "true" && value != "false" ? " (text must stand in quotes)" : "";
}

std::optional<Value> try_value(const std::string& text) {
  if (text.size() > kLargestToml) return std::nullopt;
  try {
    const toml::table table = toml::parse("value = " + text);
    // If there is more than one key, the text continued after the value.
    return table.size() == 1 ? std::optional(convert(*table.get("value"))) : std::nullopt;
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string read_toml(const std::string& path, std::string_view what) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw ConfigError(concat(quote(path), " is not a file; give a ", what, " in TOML"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw ConfigError(concat(quote(path), " cannot be read: ", std::strerror(errno)));
  }
  std::string text(kLargestToml + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) throw IoError(concat(quote(path), " cannot be read: ", std::strerror(errno)));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLargestToml) {
    throw ConfigError(
        concat(quote(path), " is larger than ", kLargestToml, " bytes: that is no ", what));
  }
  return text;
}

std::vector<Section> parse_toml(std::string_view text, std::string_view file) {
  FOURFOLD_CHECK(text.size() <= kLargestToml);
  std::vector<Section> sections;
  try {
    const toml::table document = toml::parse(text);
    for (const auto& [key, node] : document) sections.push_back(section_of(key, node));
  } catch (const toml::parse_error& error) {
    constexpr std::size_t kLongestLine = 80;
    constexpr std::size_t kLongestReason = 200;
    const int number = line_of(error.source());
    const std::string line = line_at(text, number);
    throw ConfigError(concat(file, ":", number, ": '", shorten(escape(line), kLongestLine),
                             "' is not valid TOML: ",
                             shorten(escape(error.description()), kLongestReason), hint_for(line)));
  }
  sort_by_line(sections);
  return sections;
}

std::optional<Value> parse_value(std::string_view text) {
  auto value = try_value(std::string(text));
  return value ? value : try_value(quote(text));
}

}  // namespace fourfold::config
