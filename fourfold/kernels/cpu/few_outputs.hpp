// Convolutions to a few channels, such as the last one of a network: a product for all pixels and
// all taps of the window, and sums of shifted images.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/conv.hpp"

namespace fourfold::kernels::cpu {

/// Whether the functions below can take such a convolution, and are the faster way. The product has
/// taps * outputs columns, so that a library for convolutions would leave most of its registers
/// empty where this is a matrix of some width.
bool takes_shifted_sums(std::int64_t outputs, const ConvShape& shape);

// These are as the functions of conv.hpp, on real tensors. The gradient of the input has many
// columns and needs nothing special.

Tensor conv_by_shifts(const Tensor& input, const Tensor& weight, const ConvShape& shape);

void weight_gradient_by_shifts(Tensor& out, const Tensor& gradient, const Tensor& input,
                               const ConvShape& shape, Into into);

}  // namespace fourfold::kernels::cpu
