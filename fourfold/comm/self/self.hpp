// A world of one rank, without any library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/world.hpp"

namespace fourfold::comm::self {

World open(const Options& options = {});

}  // namespace fourfold::comm::self
