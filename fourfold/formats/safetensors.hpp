// Descriptions of tensors in files of the format safetensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fourfold/formats/dtype.hpp"

namespace fourfold::formats {

/// A tensor to be written.
struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;  ///< empty for a scalar; dimensions may be 0
};

/// A tensor in a file. Its elements are in row-major order, little-endian.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  ///< in bytes, from the first byte after the header
  std::int64_t end = 0;

  std::int64_t bytes() const { return end - begin; }
  bool operator==(const TensorEntry&) const = default;
};

/// Any texts that the writer of a file has added.
using Metadata = std::map<std::string, std::string>;

}  // namespace fourfold::formats
