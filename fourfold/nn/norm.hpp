// Layer norm over a hidden dimension that may be split. The statistics are those of whole rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/function.hpp"
#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

/// Normalises rows whose columns are split over x (the input of a linear layer that is not
/// transposed).
class LayerNorm {
 public:
  LayerNorm(const Mesh& mesh, const std::string& name, std::int64_t width, Activations activations,
            const Precision& precision, std::uint64_t seed, double epsilon = 1e-5);
  LayerNorm(const LayerNorm&) = delete;
  LayerNorm& operator=(const LayerNorm&) = delete;

  /// `scale` and `shift` are the gathered parameters. Differentiable in all three arguments.
  Flow<Tensor> flow(Tensor input, Tensor scale, Tensor shift) const;
  Tensor forward(const Tensor& input, const Tensor& scale, const Tensor& shift) const {
    return run(flow(input, scale, shift));
  }

  const ParameterPtr& scale() const { return scale_; }
  const ParameterPtr& shift() const { return shift_; }

 private:
  struct Call;

  tensor::Pending own_statistics(const Tensor& input) const;
  Tensor merged(const Tensor& statistics, const Tensor& input) const;
  variable_list start_backward(Call& call, const Tensor& gradient) const;
  Tensor end_backward(Call& call) const;

  const Mesh* mesh_;
  std::int64_t width_;
  double epsilon_;
  ParameterPtr scale_;
  ParameterPtr shift_;
};

}  // namespace fourfold::nn
