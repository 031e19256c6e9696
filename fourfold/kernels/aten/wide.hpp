// What the kernels made of libtorch's operations share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/heads.hpp"

namespace fourfold::kernels::aten {

/// While it lives, operations record no graph. So views and sums cost less, and parameters can be
/// written to as they can by a loop.
using NoGraph = at::AutoDispatchBelowADInplaceOrView;

/// The values in the type in which they are computed; the tensor itself if it has that type.
inline Tensor wide(const Tensor& values) {
  return values.to(statistics_type(values.scalar_type()));
}

/// A number for each row, as a column.
inline Tensor column(const Tensor& numbers) {
  return numbers.reshape({-1, 1});
}

/// Heads that lie in the columns of a matrix, as samples × rows × groups × heads of a group ×
/// head_size. `sample_rows` is the number of rows from a sample to the next.
Tensor view_of_heads(const Tensor& matrix, const HeadColumns& columns, std::int64_t heads,
                     std::int64_t head_size, std::int64_t samples, std::int64_t rows,
                     std::int64_t sample_rows);

}  // namespace fourfold::kernels::aten
