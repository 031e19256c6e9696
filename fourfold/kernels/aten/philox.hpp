// Random words on any device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/grid/layout.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels::aten {

/// The words of dropout for some rows of the stream `key` and some of their columns, as numbers of
/// 64 bits: those that philox_words has for the counters of the columns. `rows` are numbers of rows
/// on the device on which the words are wanted.
Tensor philox_words(const Tensor& rows, const grid::Range& columns, Key key);

/// scale where the element is kept, 0 where it is dropped.
Tensor dropout_mask(const Tensor& rows, const grid::Range& columns, Key key, double p, double scale,
                    at::ScalarType type);

}  // namespace fourfold::kernels::aten
