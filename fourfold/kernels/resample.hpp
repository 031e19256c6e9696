// Images, stored as rows (kernels/conv.hpp), of twice and of half the size.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

// `height` and `width` are those of the small images. All tensors are contiguous and of one type.
// For meta tensors nothing is done.

/// Every pixel of `small`, times `factor`, becomes four pixels of `large`.
void spread_pixels(const Tensor& small, std::int64_t height, std::int64_t width, double factor,
                   Tensor& large);

/// Every pixel of `small` is the sum of four pixels of `large`, times `factor`.
void collect_pixels(const Tensor& large, std::int64_t height, std::int64_t width, double factor,
                    Tensor& small);

}  // namespace fourfold::kernels
