// The way of a tensor from main memory to a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// A tensor in main memory, brought to a device. The host does not wait for the copy: a device
/// reads pinned memory by itself, which libtorch keeps until then. On the processor it is the
/// tensor itself.
Tensor bring(const Tensor& tensor, c10::Device device);

}  // namespace fourfold::kernels
