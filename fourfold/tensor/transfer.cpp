// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/transfer.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include "fourfold/kernels/bring.hpp"

namespace fourfold::tensor {

namespace {

thread_local std::int64_t reads = 0;

}  // namespace

Tensor upload(const Mesh& mesh, const Tensor& tensor) {
  return mesh.device() == mesh.host() ? tensor : kernels::bring(tensor, mesh.device());
}

Tensor download(const Tensor& tensor) {
  ++reads;
  return tensor.is_meta() ? tensor : tensor.cpu();
}

std::int64_t host_reads() {
  return reads;
}

void wait_for_device(c10::Device device) {
  // What is copied to the host has been computed by then, and so has all that came before.
  if (device.is_cuda()) static_cast<void>(at::empty({1}, device).cpu());
}

std::vector<double> read_numbers(const std::vector<Tensor>& numbers) {
  const Tensor here = download(at::stack(numbers)).to(at::kDouble);
  if (here.is_meta()) return std::vector<double>(numbers.size());
  const double* values = here.data_ptr<double>();
  return {values, values + here.numel()};
}

}  // namespace fourfold::tensor
