// The data of a run on all its ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/world.hpp"
#include "fourfold/train/dataset.hpp"

namespace fourfold::train {

/// Does what open_dataset does, on all ranks. The first rank prepares the text, shows progress and
/// checks some of the tokens of a token file. The other ranks find the text in the cache, or
/// prepare it themselves where they have another disk. Throws ConfigError on all ranks when a host
/// has other data or another configuration than the first. Collective.
Dataset open_shared_dataset(comm::World& world, config::Config& config,
                            const std::function<void(const std::string&)>& show_progress);

}  // namespace fourfold::train
