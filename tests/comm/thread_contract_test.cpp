// The contract on ranks as threads, and on a rank alone.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"

#include "tests/comm/contract.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

#ifdef __SANITIZE_THREAD__
const ContractSizes kSizes{.large_in_every_dtype = false};  // ten times slower there
#else
const ContractSizes kSizes;
#endif

class ThreadContract : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ThreadContract, testing::Range(1, 9));

TEST_P(ThreadContract, EveryOperation) {
  on_threads(GetParam(), [](comm::World& world) { check_operations(world, world.size(), kSizes); });
}
TEST_P(ThreadContract, OrderOfSums) {
  on_threads(GetParam(), check_order_of_sums);
}
TEST_P(ThreadContract, Lists) {
  on_threads(GetParam(), check_lists);
}
TEST_P(ThreadContract, Pairs) {
  on_threads(GetParam(), check_pairs);
}

TEST(ThreadContractGroups, UnevenGroupsAtOnce) {
  on_threads(8, [](comm::World& world) {
    for (int size : {3, 5})
      check_operations(world, size, {.around_segment = false, .large_bytes = 0});
  });
}

TEST(ThreadContractGroups, EveryGridOfEight) {
  using grid::Axis;
  const grid::Axes axes = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData};
  for (const grid::Sizes& sizes : grid::factorisations(8, axes)) {
    on_threads(8, [&](comm::World& world) { check_many_groups(world, grid::Grid(sizes)); });
  }
}

TEST(ThreadContractGroups, LargeGrids) {
  on_threads(27, [](comm::World& world) {
    check_many_groups(world, grid::Grid({.x = 3, .y = 3, .z = 3}));
  });
  on_threads(64, [](comm::World& world) {
    check_many_groups(world, grid::Grid({.x = 4, .y = 4, .z = 4}));
  });
}

TEST(SelfContract, EveryOperation) {
  auto world = comm::self::open();
  check_operations(world, 1, kSizes);
  check_order_of_sums(world);
  check_lists(world);
  check_pairs(world);
  check_many_groups(world, grid::Grid());
}

}  // namespace
}  // namespace fourfold::test
