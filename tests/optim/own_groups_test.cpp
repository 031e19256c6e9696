// A user's layer over axes that no layer of ours uses, on threads.
// SPDX-License-Identifier: Apache-2.0
#include "tests/optim/own_groups.hpp"

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

TEST(OwnGroups, ALayerOverThemEqualsOneRank) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .z = 2, .data = 2, .pipe = 2}, grid::Sizes{.x = 2, .z = 3, .pipe = 2},
        grid::Sizes{.data = 2, .pipe = 2}}) {
    SCOPED_TRACE(grid::to_string(sizes));
    on_threads(grid::Grid(sizes).ranks(),
               [&](comm::World& world) { check_own_groups(world, sizes); });
  }
}

}  // namespace
}  // namespace fourfold::test
