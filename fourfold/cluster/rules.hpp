// The values that a key of a cluster's file may have, besides those of config/rules.hpp. Each rule
// assigns a value to a member or says what would be allowed, and it returns the value of a member.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/config/rules.hpp"

namespace fourfold::cluster {

using config::number_of;
using config::Refusal;
using config::Value;

/// Any text, which may be empty.
struct Text {
  /// Several of them fit into a file that can be read again.
  static constexpr std::size_t kLongest = 2048;

  std::string allowed() const { return "a text in quotes"; }

  Refusal assign(std::string& member, const Value& value) const {
    const auto* text = std::get_if<std::string>(&value.held);
    if (text == nullptr) return allowed();
    if (text->size() > kLongest) return concat("a text of at most ", kLongest, " bytes");
    member = *text;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::string& member) const { return Value{member}; }
};

/// A text that is not empty.
struct Title {
  std::string allowed() const { return "a text in quotes that is not empty"; }

  Refusal assign(std::string& member, const Value& value) const {
    if (Text{}.assign(member, value) || member.empty()) return allowed();
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::string& member) const { return Value{member}; }
};

/// A quantity in seconds, bytes or flop per second. `low` guards against another unit.
struct Measure {
  double low = 0;
  double high = 1e30;
  std::string_view unit;
  std::string_view example;

  std::string allowed() const {
    return concat("a number from ", low, " to ", high, ", in ", unit, ", such as ", example);
  }

  template <class Quantity>
  Refusal assign(Quantity& member, const Value& value) const {
    const auto number = number_of(value);
    if (!number || !(*number >= low && *number <= high)) return allowed();
    member = Quantity(*number);
    return std::nullopt;
  }
  template <class Quantity>
  std::optional<Value> value_of(const Quantity& member) const {
    return Value{member.value()};
  }
};

inline constexpr Measure kBandwidth{1e3, 1e18, "bytes per second", "25e9"};
inline constexpr Measure kRate{1e6, 1e21, "flop per second", "312e12"};
inline constexpr Measure kTime{0, 1, "seconds", "5e-6"};

/// GiB in the file, bytes in the program.
struct Gib {
  static constexpr double kGib = 1 << 30;

  std::string allowed() const { return "a number above 0 and below 1e+06, in GiB"; }

  Refusal assign(Bytes& member, const Value& value) const {
    const auto number = number_of(value);
    if (!number || !(*number > 0 && *number < 1e6)) return allowed();
    member = Bytes(std::llround(*number * kGib));
    return std::nullopt;
  }
  std::optional<Value> value_of(Bytes member) const {
    return Value{static_cast<double>(member.value()) / kGib};
  }
};

/// A share of something: above 0, at most 1.
struct Share {
  std::string allowed() const { return "a number above 0 and at most 1"; }

  Refusal assign(double& member, const Value& value) const {
    const auto number = number_of(value);
    if (!number || !(*number > 0 && *number <= 1)) return allowed();
    member = *number;
    return std::nullopt;
  }
  std::optional<Value> value_of(double member) const { return Value{member}; }
};

/// A value that may be left out.
template <class Rule>
struct Maybe {
  Rule rule;

  std::string allowed() const { return rule.allowed(); }

  template <class Number>
  Refusal assign(std::optional<Number>& member, const Value& value) const {
    Number number{};
    Refusal refusal = rule.assign(number, value);
    if (!refusal) member = number;
    return refusal;
  }
  template <class Number>
  std::optional<Value> value_of(const std::optional<Number>& member) const {
    return member ? rule.value_of(*member) : std::nullopt;
  }
};

/// Some of the algorithms of NCCL, each at most once, at least one.
struct Algorithms {
  static constexpr std::string_view kAllowed =
      R"(a list of some of "ring", "tree" and "two-level", such as ["ring", "tree"])";

  std::string allowed() const { return std::string(kAllowed); }

  Refusal assign(std::vector<NcclAlgorithm>& member, const Value& value) const {
    const config::Choice<NcclAlgorithm> each{
        {NcclAlgorithm::kRing, NcclAlgorithm::kTree, NcclAlgorithm::kTwoLevel}};
    const auto* items = std::get_if<std::vector<Value>>(&value.held);
    if (items == nullptr || items->empty()) return allowed();
    std::vector<NcclAlgorithm> found;
    for (const Value& item : *items) {
      NcclAlgorithm algorithm{};
      const bool bad = each.assign(algorithm, item).has_value();
      if (bad || std::find(found.begin(), found.end(), algorithm) != found.end()) return allowed();
      found.push_back(algorithm);
    }
    // A tree serves all_reduce alone.
    if (found == std::vector{NcclAlgorithm::kTree}) return allowed();
    member = found;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::vector<NcclAlgorithm>& member) const {
    std::vector<Value> items;
    for (NcclAlgorithm each : member) items.push_back({std::string(to_string(each))});
    return Value{std::move(items)};
  }
};

/// The numbers of a row of a table. Nothing if it is not a row of `count` finite numbers.
inline std::optional<std::vector<double>> row_of(const Value& value, std::size_t count) {
  const auto* items = std::get_if<std::vector<Value>>(&value.held);
  if (items == nullptr || items->size() != count) return std::nullopt;
  std::vector<double> row;
  for (const Value& item : *items) {
    const auto number = number_of(item);
    if (!number || !std::isfinite(*number)) return std::nullopt;
    row.push_back(*number);
  }
  return row;
}

/// A whole number from 1 to 2^30, or 0 if it is none.
inline int whole(double number) {
  return number >= 1 && number <= double(1 << 30) && number == std::floor(number)
             ? static_cast<int>(number)
             : 0;
}

/// Rows of a side and an efficiency, by increasing side.
struct ProductPoints {
  std::string allowed() const {
    return "rows of a side and a share of the peak rate, by increasing side, such as "
           "[[128, 0.4], [4096, 0.9]]";
  }

  Refusal assign(std::vector<ProductPoint>& member, const Value& value) const {
    const auto* rows = std::get_if<std::vector<Value>>(&value.held);
    if (rows == nullptr || rows->empty()) return allowed();
    std::vector<ProductPoint> points;
    for (const Value& item : *rows) {
      const auto row = row_of(item, 2);
      if (!row || whole((*row)[0]) == 0 || !((*row)[1] > 0 && (*row)[1] <= 1)) return allowed();
      points.push_back({whole((*row)[0]), (*row)[1]});
      const std::size_t count = points.size();
      if (count > 1 && points[count - 2].side >= points[count - 1].side) return allowed();
    }
    member = points;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::vector<ProductPoint>& member) const {
    std::vector<Value> rows;
    for (const ProductPoint& point : member) {
      rows.push_back({std::vector<Value>{{point.side}, {point.efficiency}}});
    }
    return Value{std::move(rows)};
  }
};

/// Rows of members, members on a host, siblings, stride, latency and bandwidth, and if it is known
/// the latency of long messages.
struct MeasuredGroups {
  std::string allowed() const {
    return "rows of [members, members on a host, groups on a host, distance, latency in seconds, "
           "bytes per second], such as [4, 4, 1, 1, 3.4e-6, 225e9], and if it is known the latency "
           "of long messages as a seventh number; each group once";
  }

  static std::optional<MeasuredGroup> group_of(const Value& value) {
    auto row = row_of(value, 6);
    if (!row) row = row_of(value, 7);
    if (!row) return std::nullopt;
    const std::vector<double>& at = *row;
    const GroupShape shape{whole(at[0]), whole(at[1]), whole(at[2]), whole(at[3])};
    const bool good = shape.members > 1 && shape.per_host >= 1 && shape.per_host <= shape.members &&
                      shape.siblings >= 1 && shape.stride >= 1 && at[4] >= 0 &&
                      at[4] <= kTime.high && at[5] >= kBandwidth.low && at[5] <= kBandwidth.high;
    if (!good) return std::nullopt;
    MeasuredGroup group{shape, Seconds(at[4]), BytesPerSecond(at[5])};
    if (at.size() > 6) {
      if (at[6] < 0 || at[6] > kTime.high) return std::nullopt;
      group.long_latency = Seconds(at[6]);
    }
    return group;
  }

  Refusal assign(std::vector<MeasuredGroup>& member, const Value& value) const {
    const auto* rows = std::get_if<std::vector<Value>>(&value.held);
    if (rows == nullptr) return allowed();
    std::vector<MeasuredGroup> groups;
    for (const Value& item : *rows) {
      const auto group = group_of(item);
      if (!group) return concat(allowed(), "; ", config::shown(item), " is none");
      for (const MeasuredGroup& other : groups) {
        if (other.shape == group->shape) return concat(allowed(), "; ", group->shape, ": twice");
      }
      groups.push_back(*group);
    }
    member = groups;
    return std::nullopt;
  }
  std::optional<Value> value_of(const std::vector<MeasuredGroup>& member) const {
    if (member.empty()) return std::nullopt;
    std::vector<Value> rows;
    for (const auto& [shape, latency, bandwidth, long_latency] : member) {
      const auto number = [](int n) { return Value{std::int64_t{n}}; };
      std::vector<Value> row = {number(shape.members),  number(shape.per_host),
                                number(shape.siblings), number(shape.stride),
                                {latency.value()},      {bandwidth.value()}};
      if (long_latency) row.push_back({long_latency->value()});
      rows.push_back({std::move(row)});
    }
    return Value{std::move(rows)};
  }
};

}  // namespace fourfold::cluster
