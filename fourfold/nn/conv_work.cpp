// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/conv_work.hpp"

#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::nn {

using kernels::ConvShape;
using tensor::MemoryClass;
using tensor::MemoryScope;

namespace {

void record_conv(const Mesh& mesh, const char* name, const ConvShape& shape, const Tensor& input,
                 const Tensor& output, const Tensor& weight) {
  const auto bytes = static_cast<std::int64_t>(input.nbytes() + output.nbytes() + weight.nbytes());
  mesh.compute(name,
               schedule::product_of({output.size(0), shape.taps() * input.size(1), output.size(1)},
                                    tensor::dtype_of(input.scalar_type()), Bytes(bytes)));
}

/// The result of a kernel that allocates it, and of which everything else is workspace.
template <class Kernel>
Tensor result_of(const Kernel& kernel) {
  Tensor result;
  {
    const MemoryScope workspace(MemoryClass::kWorkspace);
    result = kernel();
  }
  tensor::count_as(result, MemoryClass::kActivations);
  return result;
}

}  // namespace

Tensor conv(const Mesh& mesh, const Tensor& input, const Tensor& weight, const ConvShape& shape) {
  Tensor result = result_of([&] { return kernels::conv(input, weight, shape); });
  record_conv(mesh, "conv", shape, input, result, weight);
  return result;
}

Tensor conv_input_gradient(const Mesh& mesh, const Tensor& gradient, const Tensor& weight,
                           const ConvShape& shape) {
  Tensor result = result_of([&] { return kernels::conv_input_gradient(gradient, weight, shape); });
  record_conv(mesh, "conv dI", shape, result, gradient, weight);
  return result;
}

void conv_weight_gradient(const Mesh& mesh, Parameter::Use& use, const Tensor& gradient,
                          const Tensor& input, const ConvShape& shape) {
  Parameter::Slot slot = use.slot(input.scalar_type());
  {
    const MemoryScope workspace(MemoryClass::kWorkspace);
    kernels::conv_weight_gradient(slot.tensor, gradient, input, shape, slot.into);
  }
  record_conv(mesh, "conv dW", shape, input, gradient, slot.tensor);
  use.end();
}

}  // namespace fourfold::nn
