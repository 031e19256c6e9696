// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/gemm_rate.hpp"

#include <algorithm>
#include <filesystem>
#include <link.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include "fourfold/kernels/product.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/transfer.hpp"

namespace fourfold::tensor {

namespace {

constexpr Seconds kLongEnough{3};

}  // namespace

FlopsPerSecond gemm_rate(schedule::DType dtype, int size, int tries, c10::Device device) {
  const c10::InferenceMode no_graph;
  const auto options = at::TensorOptions(scalar_type_of(dtype)).device(device);
  const at::Tensor a = at::ones({size, size}, options);
  const at::Tensor b = at::ones({size, size}, options);
  at::Tensor c = at::empty({size, size}, options);
  const Flops flops(2.0 * size * size * size);
  FlopsPerSecond best;
  wait_for_device(device);
  const Seconds begin = now();
  // A machine without instructions for a precision may need seconds for one product.
  for (int i = 0; i < tries && (i == 0 || now() - begin < kLongEnough); ++i) {
    const Seconds start = now();
    kernels::multiply(c, a, b);
    wait_for_device(device);
    best = std::max(best, flops / (now() - start));
  }
  return best;
}

std::string libtorch_version() {
  return TORCH_VERSION;
}

std::string blas_library() {
  std::string found = "unknown";
  const auto look = [](dl_phdr_info* info, std::size_t, void* result) {
    const std::string name = info->dlpi_name;
    for (const char* blas : {"openblas", "libmkl", "libblas", "blis", "atlas"}) {
      if (name.find(blas) == std::string::npos) continue;
      // Debian chooses the library behind this name by symbolic links.
      *static_cast<std::string*>(result) = std::filesystem::canonical(name).string();
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(look, &found);
  return found;
}

}  // namespace fourfold::tensor
