// config.json in the format of Hugging Face's GPT-2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/checkpoint/config_file.hpp"
#include "fourfold/model/gpt.hpp"

namespace fourfold::checkpoint {

Json gpt2_config(const model::GptSpec& spec);
/// Every value is checked against the headers of the folder's weights before it is used.
model::GptSpec read_gpt2_config(const ConfigFile& json, const std::string& folder);

}  // namespace fourfold::checkpoint
