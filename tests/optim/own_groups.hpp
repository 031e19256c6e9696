// A user's layer whose groups no layer of ours has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/grid/grid.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {

/// Collective over the world, which must have as many ranks as the grid. Trains a layer that
/// gathers its weight over z+x and has replicas along data+pipe for some steps, and compares it
/// with the same layer on one rank.
void check_own_groups(comm::World& world, const grid::Sizes& sizes);

}  // namespace fourfold::test
