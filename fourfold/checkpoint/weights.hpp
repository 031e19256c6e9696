// A model's weights to and from a folder of safetensors, under Hugging Face's names for GPT-2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/stages.hpp"

namespace fourfold::checkpoint {

/// Writes folder/model.safetensors, in the type of computation. Collective; rank 0 writes, and
/// holds one tensor at a time. The file appears when it is complete. Throws IoError on rank 0.
void save_weights(const tensor::Mesh& mesh, const model::Stages& stages, const std::string& folder);

/// Fills the parameters from a folder's model.safetensors, or the files of its index: ours or
/// anyone's with GPT-2's names, with or without the prefix "transformer.", in F64, F32, F16 or
/// BF16. A file with more positions than the model's context is welcome. Every rank reads its own
/// part. Before there is an optimizer. Throws ConfigError that names file and tensor when something
/// is missing or of another shape.
void load_weights(const model::Gpt& gpt, const std::string& folder);

}  // namespace fourfold::checkpoint
