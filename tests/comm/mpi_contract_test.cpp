// The contract on MPI processes: groups of 1 to 8 of the ranks of one mpirun.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/comm/contract.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

TEST(MpiContract, EveryOperation) {
  on_mpi([](comm::World& world) {
    for (int size = 1; size <= world.size(); ++size) check_operations(world, size, {});
  });
}

TEST(MpiContract, EveryGrid) {
  on_mpi([](comm::World& world) {
    using grid::Axis;
    const grid::Axes axes = {Axis::kX, Axis::kY, Axis::kZ, Axis::kData};
    for (const grid::Sizes& sizes : grid::factorisations(world.size(), axes)) {
      check_many_groups(world, grid::Grid(sizes));
    }
  });
}

TEST(MpiContract, OrderOfSums) {
  on_mpi([](comm::World& world) { check_order_of_sums(world, 20011); });
}
TEST(MpiContract, Lists) {
  on_mpi(check_lists);
}
TEST(MpiContract, Pairs) {
  on_mpi(check_pairs);
}

}  // namespace
}  // namespace fourfold::test
