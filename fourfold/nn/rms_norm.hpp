// RMS norm over a hidden dimension that may be split. The statistics are those of whole rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/function.hpp"
#include "fourfold/nn/norm.hpp"

namespace fourfold::nn {

/// Divides each row by the root of its mean square, and multiplies its columns by a scale. The
/// columns are split over x (the input of a linear layer that is not transposed).
class RmsNorm final : public Norm {
 public:
  RmsNorm(const Mesh& mesh, const std::string& name, std::int64_t width, Activations activations,
          const Precision& precision, std::uint64_t seed, double epsilon = 1e-5);

  Flow<Tensor> flow(Tensor input, const Pass& pass) const override;

  const ParameterPtr& scale() const { return scale_; }

 private:
  struct Call;

  tensor::Pending own_squares(const Tensor& input) const;
  Tensor apply(Call& call, const Tensor& scale) const;
  variable_list start_backward(Call& call, const Tensor& gradient) const;
  Tensor end_backward(Call& call) const;

  std::int64_t width_;
  double epsilon_;
  ParameterPtr scale_;
};

}  // namespace fourfold::nn
