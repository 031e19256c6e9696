// Tensors in files of the format safetensors: what is said of them.
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

/// A tensor in a file. Its elements lie in row-major order, little-endian.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  ///< in bytes, from the first byte behind the header
  std::int64_t end = 0;

  std::int64_t bytes() const { return end - begin; }
  bool operator==(const TensorEntry&) const = default;
};

/// Whatever the writer of a file wanted to say.
using Metadata = std::map<std::string, std::string>;

}  // namespace fourfold::formats
