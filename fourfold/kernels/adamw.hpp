// One step of AdamW on a piece of memory, in one loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// The numbers of one step.
struct AdamStep {
  double rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0;           ///< of the weights; it is multiplied by the rate
  double gradient_scale = 1;  ///< the factor of clipping
  std::int64_t step = 1;      ///< counts from 1; for the bias correction of the first steps
  double mean_decay = 0;      ///< of the running mean of the values, where there is one
};

/// value, gradient, mean and square are contiguous tensors of one type, float or double. The new
/// value is also written to `copy`, a tensor of bf16, unless `copy` is `value` itself. If
/// `value_mean` is defined, it becomes mean_decay · value_mean + (1 - mean_decay) · (new value).
void adamw(const Tensor& value, const Tensor& gradient, const Tensor& mean, const Tensor& square,
           const Tensor& copy, const AdamStep& step, const Tensor& value_mean = {});

/// Exchanges the elements of two tensors of one type, float or double. If `copy` is a tensor of
/// bf16, it gets the new elements of `a`.
void exchange(const Tensor& a, const Tensor& b, const Tensor& copy);

/// Adds the sum of squares to `sum`, one number of type double on the device of the values: the
/// host does not wait for it.
void add_squares(const Tensor& values, const Tensor& sum);

}  // namespace fourfold::kernels
