// config.json of a diffusion U-Net, with the names that improved-diffusion's options have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/checkpoint/config_file.hpp"
#include "fourfold/model/unet.hpp"

namespace fourfold::checkpoint {

Json unet_config(const model::UNetSpec& spec);
/// Every value is bounded before it is used, and those that the shapes of weights show are checked
/// against these.
model::UNetSpec read_unet_config(const ConfigFile& json, const std::string& folder);

}  // namespace fourfold::checkpoint
