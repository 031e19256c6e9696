// Element types of libtorch and of the communicators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include "fourfold/schedule/collective.hpp"

namespace fourfold::tensor {

/// Throws InvariantError for types that are not communicated.
schedule::DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(schedule::DType dtype);

/// The type in which statistics of tensors of `type` are kept: at least float.
at::ScalarType statistics_type(at::ScalarType type);

}  // namespace fourfold::tensor
