// Runs the recorded schedules of all ranks of a grid against each other, without data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fourfold/grid/grid.hpp"
#include "fourfold/schedule/schedule.hpp"

namespace fourfold::test {

using QueueOf = std::function<schedule::Queue(const schedule::Issue&)>;

/// Each rank goes through its schedule `kTimes` times, and stands still at a wait until the
/// operation is done. An operation is done when it stands first in its queue on all ranks that take
/// part in it. Returns where ranks stand still for ever, or "" when all come to their end.
std::string replay(const grid::Grid& grid, const std::vector<schedule::Schedule>& ranks,
                   const QueueOf& queue_of = schedule::queue_of);
inline constexpr std::size_t kTimes = 3;

}  // namespace fourfold::test
