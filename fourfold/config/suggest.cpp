// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/suggest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "fourfold/base/text.hpp"
#include "fourfold/config/keys.hpp"

namespace fourfold::config {

namespace {

/// The least number of characters to insert, remove or replace to make `b` from `a`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // from the part of `a` so far to each start of `b`
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// Whether a name is a probable typing mistake: up to a third of it may be wrong. A name of one
/// character is never similar to another.
bool is_slip(std::string_view name, std::size_t distance) {
  return distance < std::max<std::size_t>(name.size(), 1) && distance <= (name.size() + 2) / 3;
}

/// The key that was probably meant, or null. Of equally similar keys those of `section` are
/// preferred.
const Key* nearest_key(std::string_view section, std::string_view name) {
  const Key* nearest = nullptr;
  std::size_t least = 0;
  for (const Key& key : keys()) {
    const std::size_t distance = edit_distance(name, key.name);
    const std::size_t with_section = 2 * distance + (key.section == section ? 0 : 1);
    if (!is_slip(name, distance) || (nearest != nullptr && with_section >= least)) continue;
    nearest = &key;
    least = with_section;
  }
  return nearest;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (names.empty() || names.back() != key.section) names.push_back(key.section);
  }
  return names;
}

std::string all_sections() {
  return "the sections are [" + join(sections(), "], [") + "]";
}

std::string shown_name(std::string_view name) {
  constexpr std::size_t kLongest = 60;
  return shorten(escape(name), kLongest);
}

std::string did_you_mean(const Key& key) {
  return concat("did you mean ", key.full_name(), "?");
}

}  // namespace

std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& names) {
  const auto found =
      std::min_element(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
        return edit_distance(name, a) < edit_distance(name, b);
      });
  if (found == names.end() || !is_slip(name, edit_distance(name, *found))) return std::nullopt;
  return *found;
}

std::string unknown_section(std::string_view name) {
  const auto meant = nearest(name, sections());
  const std::string hint = meant ? concat("did you mean [", *meant, "]?") : all_sections();
  return concat("unknown section [", shown_name(name), "]; ", hint);
}

std::string unknown_key(std::string_view section, std::string_view name) {
  std::string hint;
  if (const Key* nearest = nearest_key(section, name)) {
    hint = did_you_mean(*nearest);
  } else {
    std::vector<std::string> names;
    for (const Key& key : keys()) {
      if (key.section == section) names.push_back(key.name);
    }
    hint = concat("[", section, "] has ", join(names, ", "));
  }
  return concat("unknown key ", section, ".", shown_name(name), "; ", hint);
}

std::string misplaced_key(std::string_view name) {
  const Key* nearest = nearest_key("", name);
  return concat("key ", shown_name(name), " stands outside of any section; ",
                nearest != nullptr ? did_you_mean(*nearest) : all_sections());
}

}  // namespace fourfold::config
