// Layer norm over a hidden dimension that may be split: its statistics are those of the whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

/// Normalises rows whose columns are split over x (the input of a normal linear layer).
class LayerNorm {
 public:
  LayerNorm(const Mesh& mesh, const std::string& name, std::int64_t width, Activations activations,
            const Precision& precision, std::uint64_t seed, double epsilon = 1e-5);
  LayerNorm(const LayerNorm&) = delete;
  LayerNorm& operator=(const LayerNorm&) = delete;

  /// `scale` and `shift` are the parameters as gathered. Differentiable in all three.
  Tensor forward(const Tensor& input, const Tensor& scale, const Tensor& shift) const;

  const ParameterPtr& scale() const { return scale_; }
  const ParameterPtr& shift() const { return shift_; }

 private:
  friend class LayerNormFunction;

  Tensor merged_statistics(const Tensor& input) const;

  const Mesh* mesh_;
  std::int64_t width_;
  double epsilon_;
  ParameterPtr scale_;
  ParameterPtr shift_;
};

}  // namespace fourfold::nn
