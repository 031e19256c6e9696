// Writes and reads the weights of a model, in a folder of safetensors with Hugging Face's names for
// GPT-2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/stages.hpp"

namespace fourfold::checkpoint {

/// The bytes of shards that are in flight to rank 0 while it writes.
inline constexpr Bytes kSaveWindow{std::int64_t{256} << 20};

/// Writes folder/model.safetensors, in the type of computation. Collective; rank 0 writes. Rank 0
/// holds one tensor, which is copied up to three times while it is converted to the order and type
/// of the file, and up to `window` bytes of shards of the next tensors, at least one shard. A rank
/// that sends has as many bytes in flight. The file appears when it is complete. Throws IoError on
/// rank 0.
void save_weights(const tensor::Mesh& mesh, const model::Stages& stages, const std::string& folder,
                  Bytes window = kSaveWindow);

/// The sizes of a model, as its weights show them.
struct FileSizes {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t context = 0;
  std::int64_t layers = 0;
};
/// The sizes of the weights in a folder, from their headers. Throws ConfigError like load_weights.
FileSizes sizes_of_weights(const std::string& folder);

/// Throws the ConfigError that loading the folder's weights into a model of `spec` would throw.
/// Only the headers are read, no memory for the model is allocated, and the check ends at the first
/// tensor that is missing.
void check_weights(const model::GptSpec& spec, const std::string& folder);

/// Fills the parameters from a folder's model.safetensors, or from the files of its index. The
/// files may be ours or those of any program with GPT-2's names, with or without the prefix
/// "transformer.", in F64, F32, F16 or BF16. A file may have more positions than the model's
/// context. Every rank reads its own part. This must be called before there is an optimizer. Throws
/// ConfigError that names file and tensor when a tensor is missing or has another shape.
void load_weights(const model::Gpt& gpt, const std::string& folder);

}  // namespace fourfold::checkpoint
