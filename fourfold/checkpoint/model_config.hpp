// config.json of a model's folder, in Hugging Face's format for the model's kind, or in one of our
// own for U-Nets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/model.hpp"

namespace fourfold::checkpoint {

/// The text of config.json; the tokens of a model of text are -1 where the tokenizer has no such
/// token.
std::string model_config(const model::Model& model, std::int64_t begin_of_text,
                         std::int64_t end_of_text);

/// Reads the description of the folder's model: its kind, sizes and the precision of its weights.
/// Everything else is left at its default, except for the layout of activations. Every value is
/// checked against the headers of the folder's weights before it is used, and nothing larger than
/// these is allocated. Throws ConfigError when there is no config.json, when it is that of a model
/// of another kind than ours, or when it does not match the weights.
model::ModelPtr read_model_config(const std::string& folder,
                                  nn::Activations activations = nn::Activations::kSharded);

/// Throws ConfigError when the folder's model differs from `wanted` in what the shapes of its
/// weights do not show, or not completely: Model::traits.
void check_same_model(const model::Model& wanted, const std::string& folder);

}  // namespace fourfold::checkpoint
