// One step of AdamW on a piece of memory, in one pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/tensor/tensor.hpp"

namespace fourfold::optim {

/// The numbers of one step.
struct AdamStep {
  double rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0;           ///< of the weights, times the rate
  double gradient_scale = 1;  ///< what clipping leaves of the gradient
  std::int64_t step = 1;      ///< from 1, for the correction of the first steps
};

/// value, gradient, mean and square are contiguous tensors of one type, float or double. The new
/// value is written to `copy` as well, a tensor of bf16; or that is `value` itself.
void adamw(const at::Tensor& value, const at::Tensor& gradient, const at::Tensor& mean,
           const at::Tensor& square, const at::Tensor& copy, const AdamStep& step);

/// The sum of squares, in double.
double sum_of_squares(const at::Tensor& values);

}  // namespace fourfold::optim
