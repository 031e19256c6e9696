// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/work.hpp"

#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/tensor/dtype.hpp"

namespace fourfold::tensor {

namespace {

schedule::Arithmetic memory_work(const Tensor& tensor, double flops_each, double bytes) {
  return {.work = schedule::Work::kMemory,
          .dtype = dtype_of(tensor.scalar_type()),
          .flops = Flops(flops_each * static_cast<double>(tensor.numel())),
          .bytes = Bytes(static_cast<std::int64_t>(bytes))};
}

}  // namespace

schedule::Arithmetic loop_over(const Tensor& tensor, double tensors, double flops_each) {
  return memory_work(tensor, flops_each, tensors * static_cast<double>(tensor.nbytes()));
}

schedule::Arithmetic loop_over(at::TensorList tensors, double flops_each) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return memory_work(tensors[0], flops_each, bytes);
}

void copy(const Mesh& mesh, const char* name, const Tensor& to, const Tensor& from) {
  to.copy_(from);
  mesh.compute(name, loop_over({to, from}));
}

Tensor cast(const Mesh& mesh, const char* name, const Tensor& tensor, at::ScalarType type) {
  if (tensor.scalar_type() == type) return tensor;
  Tensor result = tensor.to(type);
  mesh.compute(name, loop_over({result, tensor}));
  return result;
}

Tensor cast_for_kernel(const Mesh& mesh, const char* name, const Tensor& tensor,
                       at::ScalarType type) {
  if (tensor.scalar_type() == type) return tensor;
  Tensor result = tensor.to(type);
  schedule::Arithmetic arithmetic = loop_over({result, tensor});
  arithmetic.widened = true;
  mesh.compute(name, arithmetic);
  return result;
}

Tensor contiguous(const Mesh& mesh, const char* name, const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  Tensor result = tensor.contiguous();
  mesh.compute(name, loop_over({result, tensor}));
  return result;
}

void fill_zero(const Mesh& mesh, const char* name, const Tensor& tensor) {
  tensor.zero_();
  mesh.compute(name, loop_over(tensor, 1));
}

void add_to(const Mesh& mesh, const char* name, const Tensor& sum, const Tensor& part) {
  kernels::add_to(sum, part);
  mesh.compute(name, loop_over({sum, sum, part}, 1));
}

}  // namespace fourfold::tensor
