// Reads the tensors of a model that are distributed over the safetensors files of a folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "fourfold/formats/safetensors_reader.hpp"

namespace fourfold::formats {

/// One set of tensors: those of one file, or, if model.safetensors does not exist, those that
/// model.safetensors.index.json names, each in the file that it gives. Other tensors in these files
/// are not part of the model.
class SafetensorsFolder {
 public:
  /// Throws ConfigError when the folder has neither file, when a file is missing or damaged, or
  /// when a tensor is not where the index says.
  explicit SafetensorsFolder(std::filesystem::path folder,
                             std::string_view file = "model.safetensors");

  /// The file of each tensor, by name. The pointers point into this object.
  const std::map<std::string, const SafetensorsReader*, std::less<>>& tensors() const {
    return tensors_;
  }

  bool contains(std::string_view name) const { return tensors_.contains(name); }
  /// Throws ConfigError that names the folder when there is no such tensor.
  const SafetensorsReader& file(std::string_view name) const;
  const TensorEntry& entry(std::string_view name) const { return file(name).entry(name); }
  /// The data is valid as long as this object; see SafetensorsReader::data.
  std::span<const std::byte> data(std::string_view name) const { return file(name).data(name); }

 private:
  void read_index(const std::filesystem::path& index);

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsReader> files_;  // the elements of a map never move
  std::map<std::string, const SafetensorsReader*, std::less<>> tensors_;
};

}  // namespace fourfold::formats
