// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/bring.hpp"

namespace fourfold::kernels {

Tensor bring(const Tensor& tensor, c10::Device device) {
  if (device == tensor.device()) return tensor;
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace fourfold::kernels
