// The values that a key may have. Each rule assigns a value to a member or says what would be
// allowed, and it returns the value of a member.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/config/value.hpp"

namespace fourfold::config {

/// What would be allowed, or nothing when the value was assigned.
using Refusal = std::optional<std::string>;

/// The number that a value holds, whole or not.
inline std::optional<double> number_of(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.held)) {
    return static_cast<double>(*whole);
  }
  const auto* number = std::get_if<double>(&value.held);
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

/// "\"a\"", "\"a\" or \"b\"", "\"a\", \"b\" or \"c\"".
inline std::string alternatives(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += quote(names[i]);
  }
  return text;
}

/// Any integer type, from low to high.
struct Whole {
  std::int64_t low = 0;
  std::int64_t high = std::int64_t{1} << 40;

  std::string allowed() const { return concat("a whole number of at least ", low); }

  template <class Number>
  Refusal assign(Number& member, const Value& value) const {
    if (std::holds_alternative<double>(value.held)) return allowed() + ", written without a point";
    const auto* number = std::get_if<std::int64_t>(&value.held);
    if (number == nullptr || *number < low) return allowed();
    if (*number > high) return concat("a whole number of at most ", high);
    member = static_cast<Number>(*number);
    return std::nullopt;
  }

  template <class Number>
  std::optional<Value> value_of(const Number& member) const {
    FOURFOLD_CHECK(std::in_range<std::int64_t>(member), "TOML has no integer as large as ", member);
    return Value{static_cast<std::int64_t>(member)};
  }
};

/// A finite number from low, or above it, to below high.
struct Real {
  double low = 0;
  bool low_too = true;
  double high = std::numeric_limits<double>::infinity();

  /// NaN and infinity are outside of all bounds.
  bool has(double number) const {
    return (number > low || (low_too && number == low)) && number < high;
  }
  std::string bounds() const {
    const std::string below = std::isfinite(high) ? concat(" and below ", high) : "";
    return concat(low_too ? "of at least " : "above ", low, below);
  }
  std::string allowed() const { return "a number " + bounds(); }

  Refusal assign(double& member, const Value& value) const {
    const auto number = number_of(value);
    if (!number || !has(*number)) return allowed();
    member = *number;
    return std::nullopt;
  }
  std::optional<Value> value_of(double member) const { return Value{member}; }
};

/// Two numbers, each of which obeys `each`.
struct RealPair {
  Real each;

  std::string allowed() const {
    return concat("two numbers ", each.bounds(), ", such as [0.9, 0.95]");
  }

  Refusal assign(std::array<double, 2>& member, const Value& value) const {
    const auto* items = std::get_if<std::vector<Value>>(&value.held);
    std::array<double, 2> pair{};
    if (items == nullptr || items->size() != pair.size()) return allowed();
    for (std::size_t i = 0; i < pair.size(); ++i) {
      if (each.assign(pair[i], (*items)[i])) return allowed();
    }
    member = pair;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::array<double, 2>& member) const {
    return Value{std::vector<Value>{{member[0]}, {member[1]}}};
  }
};

struct Flag {
  std::string allowed() const { return "true or false"; }

  Refusal assign(bool& member, const Value& value) const {
    const auto* flag = std::get_if<bool>(&value.held);
    if (flag == nullptr) return allowed();
    member = *flag;
    return std::nullopt;
  }
  std::optional<Value> value_of(bool member) const { return Value{member}; }
};

/// The path of a file or a folder. An empty path counts as not given, and is not written.
struct Path {
  /// Linux has this limit. It is also short enough, including escapes, that a written path can be
  /// read again.
  static constexpr std::size_t kLongest = 4096;

  std::string allowed() const { return "a path in quotes"; }

  Refusal assign(std::string& member, const Value& value) const {
    const auto* text = std::get_if<std::string>(&value.held);
    // The system would end the path at a NUL, and open another file.
    if (text == nullptr || text->find('\0') != std::string::npos) return allowed();
    if (quote(*text).size() > kLongest) return concat("a path of at most ", kLongest, " bytes");
    member = *text;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::string& member) const {
    return member.empty() ? std::nullopt : std::optional(Value{member});
  }
};

/// One of some names, kept as a string.
struct Name {
  std::vector<std::string_view> names;

  std::string allowed() const { return alternatives(names); }

  Refusal assign(std::string& member, const Value& value) const {
    const auto* text = std::get_if<std::string>(&value.held);
    if (text == nullptr || std::find(names.begin(), names.end(), *text) == names.end()) {
      return allowed();
    }
    member = *text;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::string& member) const { return Value{member}; }
};

/// One of some values of an enumeration, by the names that to_string gives them.
template <class Enum>
struct Choice {
  std::vector<Enum> choices;

  std::string allowed() const {
    std::vector<std::string_view> names;
    for (Enum choice : choices) names.push_back(to_string(choice));
    return alternatives(names);
  }

  Refusal assign(Enum& member, const Value& value) const {
    const auto* text = std::get_if<std::string>(&value.held);
    for (Enum choice : choices) {
      if (text == nullptr || *text != to_string(choice)) continue;
      member = choice;
      return std::nullopt;
    }
    return allowed();
  }
  std::optional<Value> value_of(Enum member) const { return Value{std::string(to_string(member))}; }
};

/// One of the grid's sizes. If one is given, all sizes count as given.
struct GridSize {
  int grid::Sizes::*size;

  static Whole range() { return {1, std::numeric_limits<int>::max()}; }
  std::string allowed() const { return range().allowed(); }

  Refusal assign(ParallelConfig& member, const Value& value) const {
    Refusal refusal = range().assign(member.sizes.*size, value);
    if (!refusal) member.given = true;
    return refusal;
  }
  std::optional<Value> value_of(const ParallelConfig& member) const {
    return member.given ? range().value_of(member.sizes.*size) : std::nullopt;
  }
};

/// A switch of one strategy. It is only written for that strategy.
struct SequenceParallel {
  std::string allowed() const { return Flag{}.allowed(); }

  Refusal assign(ParallelConfig& member, const Value& value) const {
    return Flag{}.assign(member.sequence_parallel, value);
  }
  std::optional<Value> value_of(const ParallelConfig& member) const {
    if (member.strategy != "megatron") return std::nullopt;
    return Flag{}.value_of(member.sequence_parallel);
  }
};

/// Some whole numbers, each of which obeys `each`.
struct WholeList {
  Whole each;
  std::size_t least = 0;  ///< numbers
  std::string_view example;

  std::string allowed() const {
    return concat("a list of whole numbers of at least ", each.low, ", such as ", example);
  }

  Refusal assign(std::vector<std::int64_t>& member, const Value& value) const {
    constexpr std::size_t kMost = 32;
    const auto* items = std::get_if<std::vector<Value>>(&value.held);
    if (items == nullptr || items->size() < least || items->size() > kMost) return allowed();
    std::vector<std::int64_t> numbers(items->size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (each.assign(numbers[i], (*items)[i])) return allowed();
    }
    member = numbers;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::vector<std::int64_t>& member) const {
    std::vector<Value> items(member.size());
    for (std::size_t i = 0; i < items.size(); ++i) items[i].held = member[i];
    return Value{std::move(items)};
  }
};

/// One of some whole numbers.
struct OneOf {
  std::vector<std::int64_t> numbers;

  std::string allowed() const {
    std::string text;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i > 0) text += i + 1 == numbers.size() ? " or " : ", ";
      text += concat(numbers[i]);
    }
    return text;
  }

  Refusal assign(std::int64_t& member, const Value& value) const {
    const auto* number = std::get_if<std::int64_t>(&value.held);
    if (number == nullptr || std::find(numbers.begin(), numbers.end(), *number) == numbers.end()) {
      return allowed();
    }
    member = *number;
    return std::nullopt;
  }
  std::optional<Value> value_of(std::int64_t member) const { return Value{member}; }
};

/// The scaling of rotary positions: none, or four positive numbers, the last of them whole.
struct RopeScaling {
  static constexpr std::size_t kNumbers = 4;

  std::string allowed() const {
    return "[], or factor, low and high frequency factor and the original context, such as "
           "[8.0, 1.0, 4.0, 8192]";
  }

  Refusal assign(std::vector<double>& member, const Value& value) const {
    const auto* items = std::get_if<std::vector<Value>>(&value.held);
    if (items == nullptr || (!items->empty() && items->size() != kNumbers)) return allowed();
    std::vector<double> numbers;
    for (const Value& item : *items) {
      const auto number = number_of(item);
      if (!number || !(*number > 0) || !std::isfinite(*number)) return allowed();
      numbers.push_back(*number);
    }
    if (!numbers.empty() && numbers.back() != std::floor(numbers.back())) return allowed();
    if (!numbers.empty() && numbers[1] >= numbers[2]) return allowed();
    member = numbers;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::vector<double>& member) const {
    std::vector<Value> items(member.size());
    for (std::size_t i = 0; i < items.size(); ++i) items[i].held = member[i];
    return Value{std::move(items)};
  }
};

/// The order of the axes, as text.
struct AxisOrder {
  std::string allowed() const {
    return concat("each axis once, fastest first, as in ",
                  quote(grid::to_string(grid::kDefaultPlacement)));
  }

  Refusal assign(grid::Placement& member, const Value& value) const {
    const auto* text = std::get_if<std::string>(&value.held);
    if (text == nullptr) return allowed();
    try {
      member = grid::parse_placement(*text);
      return std::nullopt;
    } catch (const ConfigError&) {
      return allowed();
    }
  }
  std::optional<Value> value_of(const grid::Placement& member) const {
    return Value{grid::to_string(member)};
  }
};

}  // namespace fourfold::config
