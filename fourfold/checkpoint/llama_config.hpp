// config.json in the format of Hugging Face's Llama.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/checkpoint/config_file.hpp"
#include "fourfold/model/llama.hpp"

namespace fourfold::checkpoint {

Json llama_config(const model::LlamaSpec& spec);
/// Every value is checked against the headers of the folder's weights before it is used.
model::LlamaSpec read_llama_config(const ConfigFile& json, const std::string& folder);

}  // namespace fourfold::checkpoint
