// How far the clocks of ranks are apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/comm/communicator.hpp"

namespace fourfold::comm {

/// The offset that a member adds to times of its own clock to convert them to the clock of the
/// first member. Collective; it is measured with a few short messages. The result is 0 where the
/// measurement is consistent with equal clocks, as among the ranks of one host. The error is at
/// most half the round-trip time of a message.
Seconds clock_offset(const Communicator& everyone, const std::function<Seconds()>& clock = now);

}  // namespace fourfold::comm
