// config.json of a model's folder, as Hugging Face's GPT-2 has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/block.hpp"

namespace fourfold::checkpoint {

/// The text of config.json; `end_of_text` is -1 where the tokenizer has no such token.
std::string model_config(const model::GptSpec& spec, std::int64_t end_of_text);

/// Vocabulary, width, heads, layers, context and whether the head is tied, as the folder says, and
/// the precision of its weights; everything else is left at its default. Nothing is believed before
/// the headers of the folder's weights bear it out, and nothing is allocated that is larger than
/// these. Throws ConfigError when there is no config.json, or one of a model that is not built as
/// GPT-2, or one that does not go with the weights.
model::GptSpec read_model_config(const std::string& folder);

/// Throws ConfigError when the folder's model differs from `wanted` in what the shapes of its
/// weights do not tell, or not completely: heads, layers, and whether the head is tied.
void check_same_model(const model::GptSpec& wanted, const std::string& folder);

}  // namespace fourfold::checkpoint
