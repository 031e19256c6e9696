// The kernels that GPUs of NVIDIA have of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/functions.hpp"

/// What libtorch's operations do slowly on a GPU, or not at all. For the others the functions of
/// aten/ are taken.
#define FOURFOLD_EACH_CUDA_KERNEL(X) \
  X(adamw)                           \
  X(conv)                            \
  X(conv_input_gradient)             \
  X(conv_weight_gradient)            \
  X(norm_statistics)                 \
  X(norm_apply)                      \
  X(norm_backward_sums)              \
  X(norm_backward_apply)             \
  X(norm_whole)                      \
  X(norm_backward_whole)             \
  X(rms_statistics)                  \
  X(rms_apply)                       \
  X(rms_backward_sums)               \
  X(rms_backward_apply)              \
  X(rms_whole)                       \
  X(rms_backward_whole)              \
  X(multiply)                        \
  X(fill_dropout_mask)               \
  X(apply_dropout)                   \
  X(row_maxima)                      \
  X(exponentials)                    \
  X(softmax_loss_gradient)

namespace fourfold::kernels::cuda {

#define FOURFOLD_DECLARATION(name) decltype(kernels::name) name;
FOURFOLD_EACH_CUDA_KERNEL(FOURFOLD_DECLARATION)
#undef FOURFOLD_DECLARATION

}  // namespace fourfold::kernels::cuda
