// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/product.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/mixed_kernels.hpp"

namespace fourfold::tensor {

namespace {

/// Whether this processor multiplies bf16 faster than float. Where it does not, libtorch's kernels
/// for bf16 are 20 times slower than those for float (docs/decisions/006).
bool has_bf16_products() {
#ifdef __x86_64__
  static const bool kHas = __builtin_cpu_supports("avx512bf16") != 0;
  return kHas;
#else
  return true;
#endif
}

void multiply_plainly(Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  if (into == Into::kSum) {
    at::addmm_out(out, out, a, b);
  } else {
    at::mm_out(out, a, b);
  }
}

/// A product of bf16: by way of float where that is faster. Where it is not, the product is rounded
/// before it is added to what is wider.
void multiply_bf16(Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  const bool same_type = out.scalar_type() == a.scalar_type();
  const bool native = has_bf16_products();
  if (native && same_type) return multiply_plainly(out, a, b, into);
  if (!native && !same_type) {
    return multiply_plainly(out, a.to(at::kFloat), b.to(at::kFloat), into);
  }
  const Tensor result = native ? at::mm(a, b) : at::mm(a.to(at::kFloat), b.to(at::kFloat));
  if (into == Into::kSum) {
    add_to(out, result);
  } else {
    out.copy_(result);
  }
}

}  // namespace

void multiply(Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  if (a.scalar_type() == at::kBFloat16) return multiply_bf16(out, a, b, into);
  multiply_plainly(out, a, b, into);
}

void product(const Mesh& mesh, const char* name, Tensor& out, const Tensor& a, const Tensor& b,
             Into into) {
  FOURFOLD_CHECK(out.size(0) == a.size(0) && out.size(1) == b.size(1) && a.size(1) == b.size(0),
                 name, ": shapes do not fit");
  const double flops = 2.0 * static_cast<double>(a.size(0)) * static_cast<double>(a.size(1)) *
                       static_cast<double>(b.size(1));
  const auto bytes = static_cast<std::int64_t>(a.nbytes() + b.nbytes() + out.nbytes());
  multiply(out, a, b, into);
  mesh.compute(name, flops, bytes);
}

}  // namespace fourfold::tensor
