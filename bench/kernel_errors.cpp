// The errors of every kernel, tuned and made of libtorch's operations, as a table: the largest
// difference from the same kernel in float64 on the same input, of the largest element.
//   kernel_errors [bf16|f32]
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include <ATen/Context.h>
#include <ATen/ops/randn.h>

#include "fourfold/base/processor.hpp"

#include "tests/kernels/cases.hpp"

namespace {

using fourfold::test::KernelCase;

std::vector<at::Tensor> results_of(const KernelCase& one, at::ScalarType type, int way) {
  const fourfold::ForcedChoice forced(fourfold::Choice::kKernels, way);
  at::manual_seed(5);
  return one.run(type);
}

/// The worst of all results of a case.
double error_of(const KernelCase& one, at::ScalarType type, int way) {
  const auto right = results_of(one, at::kDouble, 0);
  const auto found = results_of(one, type, way);
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, fourfold::test::relative_error(found[i], right[i]));
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const bool narrow = argc < 2 || std::strcmp(argv[1], "f32") != 0;
  const auto type = narrow ? at::kBFloat16 : at::kFloat;
  std::printf("| kernel | own | aten |\n|---|---|---|\n");
  for (const KernelCase& one : fourfold::test::kernel_cases()) {
    std::printf("| %s | %.1e | %.1e |\n", one.name.c_str(), error_of(one, type, 0),
                error_of(one, type, 1));
  }
  return 0;
}
