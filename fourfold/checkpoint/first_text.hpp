// A text that some of the ranks have, on all ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/comm/communicator.hpp"

namespace fourfold::checkpoint {

/// The text of the first rank that has one; empty if all are empty. Collective.
std::string first_text(const comm::Communicator& everyone, const std::string& text);

}  // namespace fourfold::checkpoint
