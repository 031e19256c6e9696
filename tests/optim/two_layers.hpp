// A small model of one's own, and a training loop for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ops/gelu.h>

#include "fourfold/base/text.hpp"
#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/vectors.hpp"
#include "fourfold/optim/adamw.hpp"
#include "fourfold/tensor/shard.hpp"

namespace fourfold::test {

using at::Tensor;

constexpr std::int64_t kTwoLayersWidth = 8;
constexpr std::int64_t kTwoLayersRows = 16;

/// Two linear layers with a GELU between them.
class TwoLayers {
 public:
  explicit TwoLayers(const tensor::Mesh& mesh)
      : up_(mesh, spec("up", kTwoLayersWidth, 4 * kTwoLayersWidth, false), nn::Precision::float64(),
            1),
        down_(mesh, spec("down", 4 * kTwoLayersWidth, kTwoLayersWidth, true),
              nn::Precision::float64(), 1),
        biases_(mesh, {up_.bias(), down_.bias()}) {}

  Tensor forward(tensor::InFlight& in_flight, const Tensor& input) const {
    const nn::Pass pass(in_flight, biases_);
    return down_.forward(at::gelu(up_.forward(input, pass)), pass);
  }

  nn::Parameters parameters() const {
    return {up_.weight(), up_.bias(), down_.weight(), down_.bias()};
  }

 private:
  static nn::LinearSpec spec(const char* name, std::int64_t in, std::int64_t out, bool transposed) {
    return {.name = name, .in = in, .out = out, .transposed = transposed, .deviation = 0.3};
  }

  nn::Linear up_;
  nn::Linear down_;
  nn::Vectors biases_;
};

/// This rank's part of the input of that number.
inline Tensor input_of(const tensor::Mesh& mesh, std::int64_t number) {
  const grid::Shape shape = {kTwoLayersRows, kTwoLayersWidth};
  Tensor whole = at::empty(shape, at::kDouble);
  const grid::Block all{{{0, shape[0]}, {0, shape[1]}}};
  kernels::fill_normal(whole, shape, all, kernels::key_of(1, concat("input ", number)), 1);
  using grid::Axes;
  using grid::Axis;
  return tensor::shard(mesh, whole,
                       grid::Layout({Axes{Axis::kData, Axis::kZ, Axis::kY}, Axes(Axis::kX)}));
}

/// This rank's part of the loss: the model learns to give back its input.
inline Tensor loss_of(const Tensor& output, const Tensor& input) {
  return output.sub(input).square().sum();
}

}  // namespace fourfold::test
