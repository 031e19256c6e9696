// The kernels of each kind of device (decision 031). A public function of this folder checks its
// arguments, returns at once for meta tensors, and calls the function of the same name and type
// that `functions_of` has for the device of its tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/processor.hpp"
#include "fourfold/kernels/adamw.hpp"
#include "fourfold/kernels/attention.hpp"
#include "fourfold/kernels/channels.hpp"
#include "fourfold/kernels/column_pieces.hpp"
#include "fourfold/kernels/conv.hpp"
#include "fourfold/kernels/gelu.hpp"
#include "fourfold/kernels/group_numbers.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/kernels/noise.hpp"
#include "fourfold/kernels/norm.hpp"
#include "fourfold/kernels/product.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/kernels/resample.hpp"
#include "fourfold/kernels/rotary.hpp"
#include "fourfold/kernels/silu.hpp"
#include "fourfold/kernels/swiglu.hpp"
#include "fourfold/kernels/vocabulary.hpp"

/// Everything that reads or writes the elements of tensors. What is listed here must be there in
/// every way: the linker finds what is missing.
#define FOURFOLD_EACH_KERNEL(X) \
  X(adamw)                      \
  X(exchange)                   \
  X(add_squares)                \
  X(attention_forward)          \
  X(attention_backward)         \
  X(channel_moments)            \
  X(scale_channels)             \
  X(channel_sums)               \
  X(scale_channels_backward)    \
  X(merge_pieces)               \
  X(stack_pieces)               \
  X(conv)                       \
  X(conv_input_gradient)        \
  X(conv_weight_gradient)       \
  X(gelu_forward)               \
  X(gelu_backward)              \
  X(segment_moments)            \
  X(group_moments)              \
  X(segment_sums)               \
  X(group_means)                \
  X(add_to)                     \
  X(add_to_rows_of)             \
  X(column_sums)                \
  X(fill_noise)                 \
  X(mix_noise)                  \
  X(norm_statistics)            \
  X(norm_apply)                 \
  X(norm_backward_sums)         \
  X(norm_backward_apply)        \
  X(norm_whole)                 \
  X(norm_backward_whole)        \
  X(rms_statistics)             \
  X(rms_apply)                  \
  X(rms_backward_sums)          \
  X(rms_backward_apply)         \
  X(rms_whole)                  \
  X(rms_backward_whole)         \
  X(multiply)                   \
  X(fill_normal)                \
  X(fill_dropout_mask)          \
  X(apply_dropout)              \
  X(spread_pixels)              \
  X(collect_pixels)             \
  X(rotate_heads)               \
  X(silu_forward)               \
  X(silu_backward)              \
  X(swiglu_forward)             \
  X(swiglu_backward)            \
  X(lookup_rows)                \
  X(add_to_rows)                \
  X(row_maxima)                 \
  X(exponentials)               \
  X(softmax_loss_gradient)

namespace fourfold::kernels {

#define FOURFOLD_MEMBER(name) decltype(kernels::name)* name = nullptr;
#define FOURFOLD_DECLARATION(name) decltype(kernels::name) name;

struct Functions {
  FOURFOLD_EACH_KERNEL(FOURFOLD_MEMBER)
};

/// Loops over main memory, tuned for processors.
namespace cpu {
FOURFOLD_EACH_KERNEL(FOURFOLD_DECLARATION)
extern const Functions kFunctions;
}  // namespace cpu

/// Operations of libtorch, which run on every device that libtorch knows. They take more memory and
/// more passes over it.
namespace aten {
FOURFOLD_EACH_KERNEL(FOURFOLD_DECLARATION)
extern const Functions kFunctions;
}  // namespace aten

#undef FOURFOLD_MEMBER
#undef FOURFOLD_DECLARATION

/// The functions for tensors on a device that is not the processor. Which they are depends on what
/// this library was built with: cuda/functions.cpp or no_cuda.cpp.
const Functions& functions_of_device(const Tensor& tensor);

/// The functions for the device of a tensor, or those that are forced (Choice::kKernels).
inline const Functions& functions_of(const Tensor& tensor) {
  if (takes_special_way(Choice::kKernels)) return aten::kFunctions;
  return tensor.is_cpu() ? cpu::kFunctions : functions_of_device(tensor);
}

}  // namespace fourfold::kernels
