// A model's weights to and from a folder of safetensors, under Hugging Face's names for GPT-2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/stages.hpp"

namespace fourfold::checkpoint {

/// Of shards that are on their way to rank 0 while it writes.
inline constexpr Bytes kSaveWindow{std::int64_t{256} << 20};

/// Writes folder/model.safetensors, in the type of computation. Collective; rank 0 writes. It holds
/// one tensor, which is copied up to three times on its way into the order and type of the file,
/// and up to `window` bytes of shards of the next ones, at least one; a rank that sends has as many
/// under way. The file appears when it is complete. Throws IoError on rank 0.
void save_weights(const tensor::Mesh& mesh, const model::Stages& stages, const std::string& folder,
                  Bytes window = kSaveWindow);

/// Sizes of a model as its weights have them.
struct FileSizes {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t context = 0;
  std::int64_t layers = 0;
};
/// Of the weights in a folder, by their headers. Throws ConfigError as load_weights.
FileSizes sizes_of_weights(const std::string& folder);

/// Throws the ConfigError that loading the folder's weights into a model of `spec` would throw, by
/// the headers alone: no memory for it is taken, and the first tensor that is missing ends it.
void check_weights(const model::GptSpec& spec, const std::string& folder);

/// Fills the parameters from a folder's model.safetensors, or the files of its index: ours or
/// anyone's with GPT-2's names, with or without the prefix "transformer.", in F64, F32, F16 or
/// BF16. A file with more positions than the model's context is welcome. Every rank reads its own
/// part. Before there is an optimizer. Throws ConfigError that names file and tensor when something
/// is missing or of another shape.
void load_weights(const model::Gpt& gpt, const std::string& folder);

}  // namespace fourfold::checkpoint
