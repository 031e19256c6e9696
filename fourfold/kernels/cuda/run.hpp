// Runs code of both/ on the device of a tensor, on the current stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "fourfold/kernels/cuda/launch.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cuda {

template <class Body>
void run_rows_on(const Tensor& tensor, const Body& body) {
  const c10::cuda::CUDAGuard guard(tensor.device());
  run_rows(body, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class Body>
void run_elements_on(const Tensor& tensor, const Body& body) {
  const c10::cuda::CUDAGuard guard(tensor.device());
  run_elements(body, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace fourfold::kernels::cuda
