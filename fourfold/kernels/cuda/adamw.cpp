// One pass over the memory. libtorch's fused AdamW would need a second one for the copy in bf16,
// and it writes to the gradient where that is scaled.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/adam_factors.hpp"
#include "fourfold/kernels/cuda/functions.hpp"
#include "fourfold/kernels/cuda/run.hpp"
#include "fourfold/kernels/elements.hpp"

namespace fourfold::kernels::cuda {

namespace {

template <class A>
void step_of(const Tensor& value, const Tensor& gradient, const Tensor& mean, const Tensor& square,
             const Tensor& copy, const AdamStep& step, const Tensor& value_mean) {
  run_elements_on(value, both::AdamStepOf<A>{
                             .factors = adam_factors<A>(step),
                             .value = elements<A>(value),
                             .gradient = elements<const A>(gradient),
                             .mean = elements<A>(mean),
                             .square = elements<A>(square),
                             .copy = copy.is_same(value) ? nullptr : elements<BFloat16>(copy),
                             .value_mean = value_mean.defined() ? elements<A>(value_mean) : nullptr,
                             .n = value.numel()});
}

}  // namespace

void adamw(const Tensor& value, const Tensor& gradient, const Tensor& mean, const Tensor& square,
           const Tensor& copy, const AdamStep& step, const Tensor& value_mean) {
  const auto run = value.scalar_type() == at::kDouble ? step_of<double> : step_of<float>;
  run(value, gradient, mean, square, copy, step, value_mean);
}

}  // namespace fourfold::kernels::cuda
