// The contract of a communicator, as cases that every backend must pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/comm/world.hpp"

namespace fourfold::test {

/// Which cases to run. Sizes are in elements a rank holds of an all_gather's input.
struct ContractSizes {
  std::vector<std::int64_t> counts = {0, 1, 1009};
  bool around_segment = true;  ///< one less and one more than a segment, and exactly one
  std::int64_t large_bytes = 10 << 20;
};

/// Every operation in every dtype, size and priority on groups of `group_size` ranks, with the
/// remaining ranks as a smaller group at work at the same time, against a serial reference;
/// counters against the closed form. Collective.
void check_operations(comm::World& world, int group_size, const ContractSizes& sizes);

/// Operations in flight at once on every axis of a grid over the whole world and on two lanes of
/// the same group, waited for out of order.
void check_many_groups(comm::World& world, const grid::Grid& grid, int rounds = 6);

/// Sums that round, of up to so many elements a rank: every rank has the same bits, those that the
/// documented order gives.
void check_order_of_sums(comm::World& world, std::int64_t most);

/// Lists of tensors as one operation.
void check_lists(comm::World& world);

/// Sends and receives that cross, and many of them in flight.
void check_pairs(comm::World& world);

}  // namespace fourfold::test
