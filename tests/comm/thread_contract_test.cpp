// The contract on ranks as threads, and on a rank alone.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"

#include "tests/comm/contract.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

// Under the sanitizer everything is far slower, and races show with less data and fewer grids.
#ifdef __SANITIZE_THREAD__
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif
constexpr std::int64_t kAllSums = kSlow ? 3001 : 20011;
const ContractSizes kSizes{.around_segment = !kSlow, .large_bytes = kSlow ? 1 << 20 : 10 << 20};

class ThreadContract : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ThreadContract, testing::Range(1, 9));

TEST_P(ThreadContract, EveryOperation) {
  on_threads(GetParam(), [](comm::World& world) { check_operations(world, world.size(), kSizes); });
}
TEST_P(ThreadContract, OrderOfSums) {
  on_threads(GetParam(), [](comm::World& world) { check_order_of_sums(world, kAllSums); });
}
TEST_P(ThreadContract, Lists) {
  on_threads(GetParam(), check_lists);
}
TEST_P(ThreadContract, Pairs) {
  on_threads(GetParam(), check_pairs);
}

// Groups with rounds of logarithmic number: powers of two and others.
class ThreadContractOfMany : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ThreadContractOfMany, testing::Values(9, 13, 16, 27, 64));

TEST_P(ThreadContractOfMany, EveryOperationOnLittleData) {
  if (kSlow && GetParam() > 13) GTEST_SKIP() << "too slow here";
  on_threads(GetParam(), [](comm::World& world) {
    check_operations(world, world.size(),
                     {.counts = {0, 1, 3, 101}, .around_segment = false, .large_bytes = 0});
  });
}
TEST_P(ThreadContractOfMany, OrderOfSums) {
  if (kSlow && GetParam() > 13) GTEST_SKIP() << "too slow here";
  const std::int64_t most = GetParam() > 13 || kSlow ? 301 : kAllSums;
  on_threads(GetParam(), [&](comm::World& world) { check_order_of_sums(world, most); });
}
TEST(ThreadContractLists, OfManyRanks) {
  for (const int ranks : {9, 16}) on_threads(ranks, check_lists);
}

// Between hosts operations are cut into shorter messages, with more of them on their way.
TEST(ThreadContractHosts, EveryOperation) {
  for (const int ranks : {2, 3, 5}) {
    on_threads(ranks, [](comm::World& world) { check_operations(world, world.size(), kSizes); },
               {.threads_per_host = 1});
  }
}
// The longest tensors that are sent whole are longer than a message between hosts may be.
TEST(ThreadContractHosts, WholeTensorsAreCut) {
  on_threads(
      2,
      [](comm::World& world) {
        check_operations(
            world, 2,
            {.counts = {8192, 15361, 16384, 32768}, .around_segment = false, .large_bytes = 0});
      },
      {.threads_per_host = 1});
}
TEST(ThreadContractHosts, OrderOfSums) {
  on_threads(5, [](comm::World& world) { check_order_of_sums(world, kAllSums); },
             {.threads_per_host = 2});
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
    if (kSlow && sizes != grid::Sizes{.x = 2, .y = 2, .z = 2}) continue;
    on_threads(8, [&](comm::World& world) { check_many_groups(world, grid::Grid(sizes)); });
  }
}

TEST(ThreadContractGroups, LargeGrids) {
  if (kSlow) GTEST_SKIP() << "too slow here";
  on_threads(27, [](comm::World& world) {
    check_many_groups(world, grid::Grid({.x = 3, .y = 3, .z = 3}), 2);
  });
  on_threads(64, [](comm::World& world) {
    check_many_groups(world, grid::Grid({.x = 4, .y = 4, .z = 4}), 2);
  });
}

TEST(ThreadCounters, AreTakenOnce) {
  on_threads(2, [](comm::World& world) {
    const comm::Communicator all = world.communicator(grid::Grid({.x = 2}).everyone(world.rank()));
    world.take_counters();
    std::vector<double> data(1000, 1);
    std::int64_t calls = 0;
    for (int round = 0; round < 20; ++round) {
      std::vector<comm::Work> works;
      for (int i = 0; i < 5; ++i) works.push_back(all.all_reduce(comm::view(data)));
      for (comm::Work& work : works) {
        for (const auto& [key, count] : world.take_counters()) calls += count.calls;
        work.wait();
      }
    }
    for (const auto& [key, count] : world.take_counters()) calls += count.calls;
    expect_on_all_ranks(world, calls == 100, concat(calls, " calls"));
  });
}

TEST(SelfContract, EveryOperation) {
  auto world = comm::self::open();
  check_operations(world, 1, kSizes);
  check_order_of_sums(world, kAllSums);
  check_lists(world);
  check_pairs(world);
  check_many_groups(world, grid::Grid());
}

}  // namespace
}  // namespace fourfold::test
