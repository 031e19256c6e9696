// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/gpt2_layout.hpp"

#include <algorithm>

namespace fourfold::checkpoint {

namespace {

/// Maps our rows of c_attn to the columns of the file.
std::vector<std::int64_t> qkv_order(const model::GptSpec& spec) {
  const std::int64_t size = spec.width / spec.heads;
  std::vector<std::int64_t> order;
  for (std::int64_t head = 0; head < spec.heads; ++head) {
    for (std::int64_t part = 0; part < 3; ++part) {
      for (std::int64_t i = 0; i < size; ++i)
        order.push_back((part * spec.heads + head) * size + i);
    }
  }
  return order;
}

}  // namespace

FileTensor file_tensor(const model::GptSpec& spec, const std::string& name,
                       const std::vector<std::int64_t>& shape) {
  FileTensor tensor{name, shape, false, {}};
  const bool in_block = name.starts_with("h.");
  if (in_block && shape.size() == 2) {
    tensor.transposed = true;
    std::reverse(tensor.shape.begin(), tensor.shape.end());
  }
  if (name.find(".c_attn.") != std::string::npos) tensor.order = qkv_order(spec);
  return tensor;
}

std::string name_prefix(const model::GptSpec& spec) {
  return spec.tied ? "" : "transformer.";
}

}  // namespace fourfold::checkpoint
