// Element types of libtorch and of the communicators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include "fourfold/schedule/collective.hpp"

namespace fourfold::tensor {

/// Throws InvariantError for types that are not communicated.
schedule::DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(schedule::DType dtype);

}  // namespace fourfold::tensor
