// The last convolution of a network: to few channels, which all ranks along x and y then have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/conv.hpp"

namespace fourfold::nn {

struct ExitConvSpec {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;  ///< few channels; any number
  kernels::ConvShape shape{};
  Activations activations = Activations::kSharded;
  double deviation = 0;  ///< of the initial weights
};

/// The input's channels are split over x and then y (replicated activations: over x, with copies
/// along y), and so are the input channels of the weight. The sum over these ranks is there on all
/// of them, and its use counts once (docs/gradients.md, copies): backward nothing is communicated
/// over x and y. Each rank adds its own part of the bias before the sum.
class ExitConv final : public Layer {
 public:
  /// Why such a layer cannot be split over a grid; empty if it can.
  static std::string misfit(const ExitConvSpec& spec, const grid::Sizes& sizes);

  /// Throws ConfigError when the sizes do not divide.
  ExitConv(const Mesh& mesh, const ExitConvSpec& spec, const Precision& precision,
           std::uint64_t seed);

  /// Differentiable. The pass must have gathered the bias.
  Flow<Tensor> flow(Tensor input, const Pass& pass) const;

  double flops(const Batch& batch) const override;

  const ExitConvSpec& spec() const { return spec_; }
  const ParameterPtr& weight() const { return weight_; }
  const ParameterPtr& bias() const { return bias_; }

 private:
  struct Call;

  /// The outputs to which this rank adds the bias.
  grid::Range own_outputs() const;
  void add_bias(Tensor& partial, const Tensor& bias) const;
  Tensor bias_gradient(const Tensor& gradient) const;
  tensor::Pending convolve(const Call& call, const Tensor& input) const;
  variable_list backward_products(Call& call) const;

  ExitConvSpec spec_;
  grid::Axes axes_;  // that split the input's channels
  ParameterPtr weight_;
  ParameterPtr bias_;
};

}  // namespace fourfold::nn
