// SPDX-License-Identifier: Apache-2.0
#include "tests/train/operations.hpp"

#include <set>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/dtype.hpp"

namespace fourfold::test {

CallsBy counted(const comm::Counts& counts) {
  CallsBy result;
  for (const auto& [key, count] : counts) {
    Calls& calls = result[{key.op, key.axes}];
    calls.calls += count.calls;
    calls.payload += count.payload.value();
    calls.bytes += count.wire.bytes.value();
    calls.messages += count.wire.messages;
  }
  return result;
}

std::string difference(const CallsBy& counted, const CallsBy& expected) {
  std::set<CallsBy::key_type> keys;
  for (const CallsBy* all : {&counted, &expected}) {
    for (const auto& [key, calls] : *all) keys.insert(key);
  }
  const auto describe = [](const CallsBy& all, const CallsBy::key_type& key) {
    const auto found = all.find(key);
    const Calls calls = found == all.end() ? Calls{} : found->second;
    return concat(calls.calls, " calls of ", calls.payload, " bytes, ", calls.bytes, " sent in ",
                  calls.messages, " messages");
  };
  std::string text;
  for (const CallsBy::key_type& key : keys) {
    const std::string own = describe(counted, key);
    const std::string other = describe(expected, key);
    if (own == other) continue;
    text += concat(key.first, " ", key.second, ": ", own, ", expected ", other, "\n");
  }
  return text;
}

Type::Type(at::ScalarType of) : type(tensor::dtype_of(of)) {}

void Operations::add(schedule::Op op, const grid::Axes& axes, const Payload& payload, int root) {
  const grid::Group group = grid_->group(axes, rank_);
  const int size = static_cast<int>(group.members.size());
  if (size == 1) return;
  const schedule::Collective one{
      .op = op, .dtype = payload.type, .count = payload.count, .root = root};
  const schedule::Traffic traffic = schedule::traffic_of(one, size, group.index);
  Calls& calls = all_[{op, grid::to_string(axes)}];
  calls.calls += 1;
  calls.payload += one.payload().value();
  calls.bytes += traffic.bytes.value();
  calls.messages += traffic.messages;
}

}  // namespace fourfold::test
