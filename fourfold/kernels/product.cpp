// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/product.hpp"

#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

void multiply(Tensor& out, const Tensor& a, const Tensor& b, Into into) {
  // The memory that a library needs depends on the processor; a dry run must not depend on it.
  if (out.is_meta()) return;
  functions_of(out).multiply(out, a, b, into);
}

}  // namespace fourfold::kernels
