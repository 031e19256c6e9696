// The tensors of a U-Net in files of improved-diffusion. Weights of convolutions there are out × in
// × height × width (of attention, out × in × 1). What a residual block of the way up computes of
// two inputs has two parameters here and one tensor there. The rows of emb_layers are [all scales]
// [all shifts] there, and [channel][scale|shift] here. The rows of qkv are [head][q|k|v] in both.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/check.hpp"
#include "fourfold/model/unet.hpp"

namespace fourfold::model {

namespace {

/// Which of the inputs of its block a parameter is for.
struct Which {
  std::string name;  ///< without the number of the input
  std::size_t input = 0;
  bool numbered = false;
};

Which which_of(const std::string& name) {
  for (const std::size_t input : {0U, 1U}) {
    const std::string end = concat(".", input);
    if (name.ends_with(end)) return {name.substr(0, name.size() - end.size()), input, true};
  }
  return {name};
}

const UNetBlockSpec& block_of(const UNetPlan& plan, const std::string& name) {
  for (const UNetBlockSpec& block : plan.blocks()) {
    if (name.starts_with(block.name + ".")) return block;
  }
  throw InvariantError(name + " is a parameter of no block");
}

std::int64_t window_size(std::int64_t taps) {
  std::int64_t size = 1;
  while (size * size < taps) ++size;
  return size;
}

std::vector<std::int64_t> film_order(std::int64_t rows) {
  std::vector<std::int64_t> order;
  for (std::int64_t channel = 0; channel < rows / 2; ++channel) {
    order.push_back(channel);
    order.push_back(rows / 2 + channel);
  }
  return order;
}

}  // namespace

FileTensor UNetModel::file_tensor(const std::string& name, const grid::Shape& shape) const {
  const Which which = which_of(name);
  FilePiece piece{.name = which.name, .shape = shape};
  const bool window = shape.size() == 3;
  if (window) {
    const std::int64_t size = window_size(shape[1]);
    piece.window_last = true;
    piece.shape = {shape[0], shape[2], size, size};
    const bool attends = name.ends_with(".qkv.weight") || name.ends_with(".proj_out.weight");
    if (attends) piece.shape.pop_back();
  }
  if (which.numbered) {
    const UNetBlockSpec& block = block_of(plan_, name);
    const std::int64_t begin = which.input == 0 ? 0 : block.inputs[0].channels;
    piece.channels = grid::Range{begin, begin + block.inputs[which.input].channels};
    piece.shape[window ? 1 : 0] = block.in_channels();
  }
  FileTensor tensor{.pieces = {piece}};
  if (name.find(".emb_layers.") != std::string::npos) tensor.order = film_order(shape[0]);
  return tensor;
}

}  // namespace fourfold::model
