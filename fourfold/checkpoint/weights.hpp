// Writes and reads the weights of a model, in a folder of safetensors with the names of Hugging
// Face's models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "fourfold/formats/safetensors_folder.hpp"
#include "fourfold/model/stages.hpp"

namespace fourfold::checkpoint {

/// The file of a model's weights in its folder, and that of the running mean of the weights, if
/// there is one. Both have the same tensors.
inline constexpr std::string_view kWeightsFile = "model.safetensors";
inline constexpr std::string_view kMeanFile = "ema.safetensors";

/// The bytes of shards that are in flight to rank 0 while it writes.
inline constexpr Bytes kSaveWindow{std::int64_t{256} << 20};

/// Writes folder/`file`, in the type of computation. Collective; rank 0 writes. Rank 0
/// holds one tensor, which is copied up to three times while it is converted to the order and type
/// of the file, and up to `window` bytes of shards of the next tensors, at least one shard. A rank
/// that sends has as many bytes in flight. The file appears when it is complete. Throws IoError on
/// rank 0.
void save_weights(const tensor::Mesh& mesh, const model::Stages& stages, const std::string& folder,
                  Bytes window = kSaveWindow, std::string_view file = kWeightsFile);

/// Throws the ConfigError that loading the folder's weights into such a model would throw. Only the
/// headers are read, no memory for the model is allocated, and the check ends at the first tensor
/// that is missing.
void check_weights(const model::Model& model, const std::string& folder);

/// Fills the parameters of a part of the model from `file` in a folder, or, if that is
/// model.safetensors and does not exist, from the files of its index. The files may be ours or
/// those of any program with the same names (Model::file_tensor), in F64, F32, F16 or BF16. Every
/// rank reads its own part. This must be called before there is an optimizer. Throws ConfigError
/// that names file and tensor when a tensor is missing or has another shape.
void load_weights(const model::Model& model, const model::Part& part, const std::string& folder,
                  std::string_view file = kWeightsFile);

}  // namespace fourfold::checkpoint
