// Many MPI processes at once; the rest of what large grids need is tested with ranks as threads.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/comm/contract.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

TEST(MpiSmoke, CubeOfRanks) {
  on_mpi([](comm::World& world) {
    check_many_groups(world, grid::Grid({.x = 3, .y = 3, .z = 3}));
    check_pairs(world);
  });
}

}  // namespace
}  // namespace fourfold::test
