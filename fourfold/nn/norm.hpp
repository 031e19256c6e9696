// Layer norm over a hidden dimension that may be split. The statistics are those of whole rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/function.hpp"
#include "fourfold/nn/linear.hpp"

namespace fourfold::nn {

/// Normalises each row of a hidden state: any of the layers that do so. Differentiable. The pass
/// must have gathered the vectors of the layer.
class Norm : public Layer {
 public:
  virtual Flow<Tensor> flow(Tensor input, const Pass& pass) const = 0;
  Tensor forward(const Tensor& input, const Pass& pass) const { return run(flow(input, pass)); }

 protected:
  using Layer::Layer;
};

/// Normalises rows whose columns are split over x (the input of a linear layer that is not
/// transposed).
class LayerNorm final : public Norm {
 public:
  LayerNorm(const Mesh& mesh, const std::string& name, std::int64_t width, Activations activations,
            const Precision& precision, std::uint64_t seed, double epsilon = 1e-5);

  Flow<Tensor> flow(Tensor input, const Pass& pass) const override;

  const ParameterPtr& scale() const { return scale_; }
  const ParameterPtr& shift() const { return shift_; }

 private:
  struct Call;

  tensor::Pending own_statistics(const Tensor& input) const;
  Tensor merged(const Tensor& statistics, const Tensor& input) const;
  variable_list start_backward(Call& call, const Tensor& gradient) const;
  Tensor end_backward(Call& call) const;

  std::int64_t width_;
  double epsilon_;
  ParameterPtr scale_;
  ParameterPtr shift_;
};

}  // namespace fourfold::nn
