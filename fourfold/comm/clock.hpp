// How far the clocks of ranks are apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/comm/communicator.hpp"

namespace fourfold::comm {

/// What a member adds to times of its own clock to have them on the clock of the first member,
/// found by a few short messages; collective. 0 where nothing speaks against equal clocks, as among
/// the ranks of one host. It is wrong by half the time of a message's way there and back at most.
Seconds clock_offset(const Communicator& everyone, const std::function<Seconds()>& clock = now);

}  // namespace fourfold::comm
