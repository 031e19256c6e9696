// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/torch_type.hpp"

namespace fourfold::checkpoint {

std::string torch_type(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return "bfloat16";
    case at::kDouble:
      return "float64";
    default:
      return "float32";
  }
}

nn::Precision precision_of(const std::string& torch_type) {
  if (torch_type == "bfloat16") return nn::Precision::bf16();
  if (torch_type == "float64") return nn::Precision::float64();
  return nn::Precision::float32();
}

}  // namespace fourfold::checkpoint
