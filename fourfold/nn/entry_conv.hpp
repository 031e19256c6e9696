// The first convolution of a network: of images with few channels, which all ranks along x and y
// have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/conv.hpp"

namespace fourfold::nn {

struct EntryConvSpec {
  std::string name;
  std::int64_t in = 0;  ///< channels of the images
  std::int64_t out = 0;
  kernels::ConvShape shape{};
  Activations activations = Activations::kSharded;
  double deviation = 0;  ///< of the initial weights
};

/// The output's channels are split over x and then y (replicated activations: over x, with copies
/// along y), and so are the rows of the weight: nothing is communicated but the weight, and no two
/// ranks along x and y compute the same output where activations are sharded. Images are data: they
/// have no gradient.
class EntryConv final : public Layer {
 public:
  /// Why such a layer cannot be split over a grid; empty if it can.
  static std::string misfit(const EntryConvSpec& spec, const grid::Sizes& sizes);

  /// Throws ConfigError when the sizes do not divide.
  EntryConv(const Mesh& mesh, const EntryConvSpec& spec, const Precision& precision,
            std::uint64_t seed);

  /// The images are rows × channels, in the type of the weights. Differentiable with respect to
  /// weight and bias. The pass must have gathered the bias.
  Tensor forward(const Tensor& images, const Pass& pass) const;

  double flops(const Batch& batch) const override;

  const EntryConvSpec& spec() const { return spec_; }
  const ParameterPtr& weight() const { return weight_; }
  const ParameterPtr& bias() const { return bias_; }

 private:
  Tensor convolve(const Tensor& images, const Tensor& weight, const Tensor& bias) const;

  EntryConvSpec spec_;
  ParameterPtr weight_;
  ParameterPtr bias_;
};

}  // namespace fourfold::nn
