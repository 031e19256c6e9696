// SPDX-License-Identifier: Apache-2.0
#include "tests/support/ranks.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::test {

grid::Group everyone(const comm::World& world) {
  return grid::Grid(grid::Sizes{.x = world.size()}).group(grid::Axis::kX, world.rank());
}

void expect_on_all_ranks(comm::World& world, bool holds, const std::string& message) {
  const auto comm = world.communicator(everyone(world));
  // The lowest rank that fails has the largest value; 0 when none does.
  std::array<std::int64_t, 1> worst = {holds ? 0 : world.size() - world.rank()};
  comm.all_reduce(comm::view(worst), comm::ReduceOp::kMax).wait();
  if (worst[0] == 0) return;
  const int failed = world.size() - static_cast<int>(worst[0]);
  std::array<std::int64_t, 128> text{};
  auto* bytes = reinterpret_cast<char*>(text.data());
  if (world.rank() == failed) {
    std::copy_n(message.data(), std::min(message.size(), sizeof text - 1), bytes);
  }
  comm.broadcast(comm::view(text), failed).wait();
  throw ExpectationFailed(concat("on rank ", failed, ": ", bytes));
}

}  // namespace fourfold::test
