// What a rank communicates, counted or written down by hand: calls and payload by operation and
// axes, and the bytes and messages that it sends for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>

#include "fourfold/comm/counters.hpp"
#include "fourfold/grid/grid.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::test {

struct Calls {
  std::int64_t calls = 0;
  std::int64_t payload = 0;
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
  bool operator==(const Calls&) const = default;
};

/// By operation and axes.
using CallsBy = std::map<std::pair<schedule::Op, std::string>, Calls>;

/// From the counters of a rank.
CallsBy counted(const comm::Counts& counts);

/// Where two of them differ, for people; empty if they do not.
std::string difference(const CallsBy& counted, const CallsBy& expected);

/// The elements of an operation's whole tensor, written as `count * type`.
struct Payload {
  std::int64_t count = 0;
  schedule::DType type = schedule::DType::kF64;
};
struct Type {
  schedule::DType type;
  explicit Type(schedule::DType of) : type(of) {}
  explicit Type(at::ScalarType of);
  std::int64_t bytes() const { return schedule::size_of(type); }
};
inline Payload operator*(std::int64_t count, const Type& type) {
  return {count, type.type};
}

/// Adds up the operations of one rank on one host.
class Operations {
 public:
  Operations(const grid::Grid& grid, int rank) : grid_(&grid), rank_(rank) {}

  /// Nothing in a group of one. `root` is an index in the group.
  void add(schedule::Op op, const grid::Axes& axes, const Payload& payload, int root = 0);

  const CallsBy& all() const { return all_; }

 private:
  const grid::Grid* grid_;
  int rank_;
  CallsBy all_;
};

}  // namespace fourfold::test
