// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/error.hpp"

namespace fourfold {

namespace {
thread_local int current_rank = -1;
}

int this_rank() {
  return current_rank;
}
void set_this_rank(int rank) {
  current_rank = rank;
}

Error::Error(const std::string& message, Where where)
    : std::runtime_error(message), where_(where), rank_(current_rank) {}

std::string describe(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const int rank = ours != nullptr ? ours->rank() : this_rank();
  std::string line = rank >= 0 ? "rank " + std::to_string(rank) + ": " : std::string();
  line += error.what();
  if (const auto* bug = dynamic_cast<const InvariantError*>(&error)) {
    line += std::string(" (") + bug->where().file + ":" + std::to_string(bug->where().line) + ")";
  }
  return line;
}

}  // namespace fourfold
