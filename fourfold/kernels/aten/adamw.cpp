// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ops/linalg_vector_norm.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

void adamw(const Tensor& value, const Tensor& gradient, const Tensor& mean, const Tensor& square,
           const Tensor& copy, const AdamStep& step, const Tensor& value_mean) {
  const NoGraph guard;
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  const Tensor g = gradient.mul(step.gradient_scale);
  mean.mul_(step.beta1).add_(g, 1 - step.beta1);
  square.mul_(step.beta2).addcmul_(g, g, 1 - step.beta2);
  const Tensor deviation = square.sqrt().mul_(1 / std::sqrt(correction2)).add_(step.epsilon);
  value.mul_(1 - step.rate * step.decay).addcdiv_(mean, deviation, -step.rate / correction1);
  if (!copy.is_same(value)) copy.copy_(value);
  if (value_mean.defined()) value_mean.mul_(step.mean_decay).add_(value, 1 - step.mean_decay);
}

void exchange(const Tensor& a, const Tensor& b, const Tensor& copy) {
  const NoGraph guard;
  const Tensor kept = a.clone();
  a.copy_(b);
  b.copy_(kept);
  if (!copy.is_same(a)) copy.copy_(a);
}

void add_squares(const Tensor& values, const Tensor& sum) {
  const NoGraph guard;
  const auto norm = at::linalg_vector_norm(values, 2, c10::nullopt, false, at::kDouble);
  sum.addcmul_(norm, norm);
}

}  // namespace fourfold::kernels::aten
