// SPDX-License-Identifier: Apache-2.0
#include "fourfold/schedule/collective.hpp"

#include <array>
#include <ostream>

#include "fourfold/base/text.hpp"

namespace fourfold::schedule {

std::string_view to_string(DType dtype) {
  constexpr std::array<std::string_view, 4> kNames = {"f64", "f32", "bf16", "i64"};
  return kNames[static_cast<std::size_t>(dtype)];
}

std::string_view to_string(Op op) {
  constexpr std::array<std::string_view, 8> kNames = {"all_reduce", "all_gather", "reduce_scatter",
                                                      "broadcast",  "reduce",     "send",
                                                      "recv",       "barrier"};
  return kNames[static_cast<std::size_t>(op)];
}

std::string_view to_string(ReduceOp op) {
  return op == ReduceOp::kSum ? "sum" : "max";
}

std::string_view to_string(Priority priority) {
  return priority == Priority::kUrgent ? "urgent" : "background";
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << to_string(dtype);
}
std::ostream& operator<<(std::ostream& out, Op op) {
  return out << to_string(op);
}
std::ostream& operator<<(std::ostream& out, ReduceOp op) {
  return out << to_string(op);
}
std::ostream& operator<<(std::ostream& out, Priority priority) {
  return out << to_string(priority);
}

std::string to_string(const Collective& c) {
  std::string text(to_string(c.op));
  if (c.op == Op::kBarrier) return text;
  if (c.op == Op::kAllReduce || c.op == Op::kReduceScatter || c.op == Op::kReduce) {
    text += concat(" ", c.reduce);
  }
  if (c.op == Op::kBroadcast || c.op == Op::kRecv) text += concat(" from ", c.root);
  if (c.op == Op::kReduce || c.op == Op::kSend) text += concat(" to ", c.root);
  text += concat(" of ", c.count, " ", c.dtype);
  if (c.priority == Priority::kBackground) text += ", background";
  return text;
}
std::ostream& operator<<(std::ostream& out, const Collective& collective) {
  return out << to_string(collective);
}

}  // namespace fourfold::schedule
