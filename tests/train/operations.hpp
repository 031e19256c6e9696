// What a rank communicates, written down by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/grid/grid.hpp"
#include "fourfold/tensor/torch.hpp"

#include "tests/support/calls.hpp"

namespace fourfold::test {

/// The elements of an operation's whole tensor, written as `count * type`.
struct Payload {
  std::int64_t count = 0;
  schedule::DType type = schedule::DType::kF64;
  schedule::Priority priority = schedule::Priority::kUrgent;

  /// The same for an operation in the background, which is cut into smaller messages, if it is one.
  Payload in_background(bool is) const {
    return {count, type, is ? schedule::Priority::kBackground : schedule::Priority::kUrgent};
  }
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
  /// In a group that is a part of the ranks along `axes`.
  void add_part(schedule::Op op, const grid::Axes& axes, int ranks, const Payload& payload);

  const CallsBy& all() const { return all_; }

 private:
  void add(schedule::Op op, const grid::Group& group, const Payload& payload, int root);

  const grid::Grid* grid_;
  int rank_;
  CallsBy all_;
};

}  // namespace fourfold::test
