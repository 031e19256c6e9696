// Ranks that must have the same weights compare them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/stages.hpp"

namespace fourfold::train {

/// Which rank has other weights than those that must have the same: one line that names a parameter
/// and the ranks, the same on all ranks; empty if there is none. Of more than two, those that
/// differ from most are named. Compares checksums; collective, while no gradient is under way.
///
/// Before an update is the best time. Where ranks share the optimizer's state, every update sends
/// each rank's part of the values to the others: afterwards they are the same again, even if a part
/// was wrong.
std::string difference_of_replicas(const tensor::Mesh& mesh, const model::Stages& stages);

}  // namespace fourfold::train
