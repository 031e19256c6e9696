// How fast this machine multiplies matrices. Other rates are compared with this rate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <c10/core/Device.h>

#include "fourfold/base/units.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::tensor {

/// The best rate of up to `tries` products (fewer where one takes seconds) of two square matrices
/// of `size` in this precision, on that device: the processor with the threads that this process
/// has, or a GPU. Integers are not supported.
FlopsPerSecond gemm_rate(schedule::DType dtype, int size = 2048, int tries = 6,
                         c10::Device device = c10::kCPU);

/// "1.13.1".
std::string libtorch_version();

/// The file of the BLAS library that is loaded, or "unknown".
std::string blas_library();

}  // namespace fourfold::tensor
