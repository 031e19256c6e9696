// Every kernel on small inputs, as a list: what compares different ways to compute them goes
// through it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::test {

struct KernelCase {
  std::string name;
  /// Computes with tensors of a type and returns the results. The inputs are the same in every
  /// type: all of them are numbers of bf16.
  std::function<std::vector<at::Tensor>(at::ScalarType)> run;
};

/// Those whose results are rounded.
const std::vector<KernelCase>& kernel_cases();

/// The part of them that only networks for images need.
std::vector<KernelCase> image_kernel_cases();

/// Those whose results have the same bits in every way: random numbers and what is only copied.
const std::vector<KernelCase>& exact_kernel_cases();

/// The largest difference, of the largest element of `expected`.
double relative_error(const at::Tensor& found, const at::Tensor& expected);

}  // namespace fourfold::test
