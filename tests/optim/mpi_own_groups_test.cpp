// A user's layer over axes that no layer of ours uses, on processes.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/optim/own_groups.hpp"

namespace fourfold::test {
namespace {

TEST(MpiOwnGroups, ALayerOverThemEqualsOneRank) {
  on_mpi([](comm::World& world) {
    check_own_groups(world, {.x = 2, .z = 2, .pipe = 2});
    check_own_groups(world, {.z = 2, .data = 2, .pipe = 2});
  });
}

}  // namespace
}  // namespace fourfold::test
