// SPDX-License-Identifier: Apache-2.0
#include "tests/support/calls.hpp"

#include <set>

#include "fourfold/base/check.hpp"

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

}  // namespace fourfold::test
