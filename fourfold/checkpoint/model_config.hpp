// config.json of a model's folder, in the format of Hugging Face's GPT-2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/block.hpp"

namespace fourfold::checkpoint {

/// The text of config.json; `end_of_text` is -1 where the tokenizer has no such token.
std::string model_config(const model::GptSpec& spec, std::int64_t end_of_text);

/// Reads vocabulary, width, heads, layers, context and whether the head is tied from the folder,
/// and the precision of its weights. Everything else is left at its default. Every value is checked
/// against the headers of the folder's weights before it is used, and nothing larger than these is
/// allocated. Throws ConfigError when there is no config.json, when it is that of a model that is
/// not built like GPT-2, or when it does not match the weights.
model::GptSpec read_model_config(const std::string& folder);

/// Throws ConfigError when the folder's model differs from `wanted` in what the shapes of its
/// weights do not show, or not completely: heads, layers, and whether the head is tied.
void check_same_model(const model::GptSpec& wanted, const std::string& folder);

}  // namespace fourfold::checkpoint
