// Noise on images: numbers that are functions of a key, the number of the sample and the element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "fourfold/kernels/random.hpp"

namespace fourfold::kernels {

/// noise[i] = the normally distributed numbers of sample `first + i`. The first dimension is that
/// of samples; the tensor is contiguous, of float or double.
void fill_noise(const Tensor& noise, std::int64_t first, Key key);

/// out[i] = signal[i] · images[i] + noise[i] · (the numbers of sample `first + i`), in one pass.
/// The tensors have the same shape and are contiguous; `images` is of float or double, `out` may
/// also be of bf16.
void mix_noise(const Tensor& images, const Tensor& out, std::int64_t first, Key key,
               std::span<const double> signal, std::span<const double> noise);

}  // namespace fourfold::kernels
