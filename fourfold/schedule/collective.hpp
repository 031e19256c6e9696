// A communication operation as a value. Every backend executes it, the recorder writes it down, and
// the planner computes its cost. docs/communication.md has the semantics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include "fourfold/base/units.hpp"

namespace fourfold::schedule {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kI64 };
enum class Op : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSend,
  kRecv,
  kBarrier
};
enum class ReduceOp : std::uint8_t { kSum, kMax };

/// Compute waits for urgent operations. Background operations keep little in flight at a time, so
/// that an urgent message never queues behind much of their data.
enum class Priority : std::uint8_t { kUrgent, kBackground };

constexpr std::int64_t size_of(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kI64 ? 8 : dtype == DType::kF32 ? 4 : 2;
}

std::string_view to_string(DType dtype);  ///< "f64", "f32", "bf16", "i64"
std::string_view to_string(Op op);        ///< "all_reduce", ...
std::string_view to_string(ReduceOp op);  ///< "sum", "max"
std::string_view to_string(Priority priority);
std::ostream& operator<<(std::ostream& out, DType dtype);
std::ostream& operator<<(std::ostream& out, Op op);
std::ostream& operator<<(std::ostream& out, ReduceOp op);
std::ostream& operator<<(std::ostream& out, Priority priority);

/// One operation of a group. `count` is the number of elements of the whole tensor: for all_reduce,
/// broadcast, reduce, send and recv its size, for all_gather the gathered output, for
/// reduce_scatter the full input.
struct Collective {
  Op op = Op::kBarrier;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  Priority priority = Priority::kUrgent;
  std::int64_t count = 0;
  int root = 0;  ///< of broadcast and reduce; the peer of send and recv; an index in the group

  /// The bytes of the whole tensor. The counters call this payload.
  Bytes payload() const { return Bytes(count * size_of(dtype)); }
  bool operator==(const Collective&) const = default;
};

/// "all_reduce sum of 1024 f32", "broadcast from 2 of 10 bf16, background", "barrier".
std::string to_string(const Collective& collective);
std::ostream& operator<<(std::ostream& out, const Collective& collective);

}  // namespace fourfold::schedule
