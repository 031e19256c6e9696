// config.json of a U-Net's folder. No other program has a format for it that says everything, so
// the class and the keys are ours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/checkpoint/config_file.hpp"
#include "fourfold/model/unet.hpp"

namespace fourfold::checkpoint {

Json unet_config(const model::UNetSpec& spec);
/// Every value is checked against the headers of the folder's weights, or bounded, before it is
/// used.
model::UNetSpec read_unet_config(const ConfigFile& json, const std::string& folder);

}  // namespace fourfold::checkpoint
