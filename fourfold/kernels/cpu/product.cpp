// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "fourfold/base/processor.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// libtorch multiplies bf16 with oneDNN, which must not use tiles that the processor does not
/// describe. oneDNN reads this variable at its first product, and libtorch gives no access to any
/// other setting. So the variable is set at the start of the process, while there is one thread,
/// unless the user has set it.
bool avoid_tiles_without_description() {
  if (tiles_of_processor() != Tiles::kNotDescribed) return false;
  return setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", 0) == 0;
}
[[maybe_unused]] const bool kAvoided = avoid_tiles_without_description();

/// libtorch does not give smaller products of bf16 to oneDNN but to its own loops, which in version
/// 1.13 round every partial sum to bf16.
constexpr std::int64_t kSmallestForOneDnn = 16 * 16 * 16;

bool multiplies_natively(const Tensor& a, const Tensor& b) {
  return a.size(0) * a.size(1) * b.size(1) > kSmallestForOneDnn &&
         takes_special_way(Choice::kBf16Products);
}

void multiply_plainly(Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  if (into == Into::kSum) {
    at::addmm_out(out, out, a, b);
  } else {
    at::mm_out(out, a, b);
  }
}

/// A product of bf16, by libtorch's own kernels or by way of float. libtorch's kernels round the
/// product before it is added to an `out` of a wider type.
void multiply_bf16(Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  const bool same_type = out.scalar_type() == a.scalar_type();
  const bool native = multiplies_natively(a, b);
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
  // The memory that a library needs depends on the processor; a dry run must not depend on it.
  if (a.scalar_type() == at::kBFloat16) return multiply_bf16(out, a, b, into);
  multiply_plainly(out, a, b, into);
}

}  // namespace fourfold::kernels::cpu
