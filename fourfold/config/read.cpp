// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/read.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/config/check.hpp"
#include "fourfold/config/defaults.hpp"
#include "fourfold/config/keys.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/config/suggest.hpp"
#include "fourfold/config/toml.hpp"

namespace fourfold::config {

namespace {

[[noreturn]] void refuse(const std::string& place, const std::string& message) {
  throw ConfigError(concat(place, ": ", message));
}

/// The source of a value.
struct Giver {
  std::string place;             ///< in messages
  std::filesystem::path folder;  ///< where relative paths start
};

std::filesystem::path working_directory() {
  std::error_code error;
  return std::filesystem::current_path(error);
}

/// Converts a path to an absolute one.
std::string absolute(const std::string& path, const std::filesystem::path& folder) {
  if (path.empty() || path.front() == '/') return path;
  const std::filesystem::path whole = folder / path;
  // ".." may follow a symbolic link, and only the system knows its target.
  const bool climbs = std::find(whole.begin(), whole.end(), "..") != whole.end();
  return (climbs ? whole : whole.lexically_normal()).string();
}

void assign(Draft& draft, const Giver& giver, std::string_view section, std::string_view name,
            const Value& value) {
  const Key* key = find_key(section, name);
  if (key == nullptr) refuse(giver.place, unknown_key(section, name));
  const auto take = [&](const Value& given) {
    if (const Refusal allowed = key->assign(draft.config, given)) {
      refuse(giver.place, concat(key->full_name(), " = ", shown(given), " must be ", *allowed));
    }
  };
  take(value);
  if (key->is_path) take(Value{absolute(std::get<std::string>(value.held), giver.folder)});
  draft.places[key->full_name()] = giver.place;
}

void read_file(Draft& draft, const std::string& path) {
  const std::filesystem::path folder =
      (working_directory() / path).parent_path();  // an absolute path is kept
  for (const Section& section : parse_toml(read_toml(path, "configuration"), draft.file)) {
    const std::string place = concat(draft.file, ":", section.line);
    if (section.value && is_section(section.name)) {
      refuse(place, concat(section.name, " = ", shown(*section.value), " must be a section: [",
                           section.name, "] with its keys below"));
    }
    if (section.value) refuse(place, misplaced_key(section.name));
    if (!is_section(section.name)) refuse(place, unknown_section(section.name));
    for (const Item& item : section.items) {
      const Giver giver{concat(draft.file, ":", item.line), folder};
      assign(draft, giver, section.name, item.name, item.value);
    }
  }
}

void apply_override(Draft& draft, std::string_view text) {
  const std::string place = "--set";
  const auto equals = text.find('=');
  const std::string_view full_name = trim(text.substr(0, equals));
  const auto dot = full_name.find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos) {
    constexpr std::size_t kLongest = 80;
    throw ConfigError(concat("--set ", shorten(escape(text), kLongest),
                             " must look like section.key=value, as in train.steps=100"));
  }
  const std::string_view section = full_name.substr(0, dot);
  if (!is_section(section)) refuse(place, unknown_section(section));
  const auto value = parse_value(trim(text.substr(equals + 1)));
  if (!value) {
    refuse(place, concat("the value of ", escape(full_name), " must be UTF-8 text of at most ",
                         kLargestToml, " bytes"));
  }
  assign(draft, {place, working_directory()}, section, full_name.substr(dot + 1), *value);
}

void apply_init_from(Draft& draft, const std::string& path) {
  const auto value = parse_value(quote(path));
  if (!value) refuse("--init-from", "the path must be UTF-8 text");
  assign(draft, {"--init-from", working_directory()}, "train", "init_from", *value);
}

void apply_grid(Draft& draft, const std::string& text) {
  try {
    draft.config.parallel.sizes = grid::parse_sizes(text);
  } catch (const ConfigError& error) {
    refuse("--grid", escape(error.what()));
  }
  draft.config.parallel.given = true;
  for (grid::Axis axis : grid::kAllAxes) draft.places[concat("parallel.", axis)] = "--grid";
}

}  // namespace

Config read(const Source& source) {
  Draft draft{.config = {}, .file = escape(source.path), .places = {}};
  read_file(draft, source.path);
  for (const std::string& text : source.overrides) apply_override(draft, text);
  if (!source.grid.empty()) apply_grid(draft, source.grid);
  if (!source.init_from.empty()) apply_init_from(draft, source.init_from);
  settle_defaults(draft);
  resolve_strategy(draft);
  check(draft, source.needs_data);
  return draft.config;
}

}  // namespace fourfold::config
