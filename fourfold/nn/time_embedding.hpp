// The embedding of the number of a diffusion step, which every block of a network uses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/gathered_linear.hpp"

namespace fourfold::nn {

struct TimeEmbeddingSpec {
  std::string name;  ///< parameters are NAME.0.weight, NAME.0.bias, NAME.2.weight, NAME.2.bias
  std::int64_t channels = 0;  ///< of the sinusoids: an even number
  std::int64_t width = 0;     ///< of the embedding
  double deviation_in = 0;    ///< of the initial weights of the first linear layer
  double deviation_out = 0;   ///< of the second
};

/// Sinusoids [cos | sin] of the step's number, a linear layer, SiLU, a linear layer, and SiLU, with
/// which all blocks begin. The rows of the weights are split over x, y and z; the whole embedding
/// is gathered on every rank.
class TimeEmbedding final : public Layer {
 public:
  /// Why such a layer cannot be split over a grid; empty if it can.
  static std::string misfit(const TimeEmbeddingSpec& spec, const grid::Sizes& sizes);

  /// Throws ConfigError when the sizes do not divide.
  TimeEmbedding(const Mesh& mesh, const TimeEmbeddingSpec& spec, const Precision& precision,
                std::uint64_t seed);

  /// `times` has a number for each sample of this rank, in float or double. The result, samples ×
  /// width in the type of the weights, is SiLU of the embedding. Differentiable: each rank along x
  /// and y brings the gradient of its own uses, and these are summed here, once. The pass must have
  /// gathered the vectors of the layer.
  Flow<Tensor> flow(Tensor times, const Pass& pass) const;

  const TimeEmbeddingSpec& spec() const { return spec_; }
  const GatheredLinear& first() const { return first_; }
  const GatheredLinear& second() const { return second_; }

 private:
  Tensor sinusoids(const Tensor& times) const;

  TimeEmbeddingSpec spec_;
  GatheredLinear first_;
  GatheredLinear second_;
};

}  // namespace fourfold::nn
