// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/product.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::tensor {

void product(const Mesh& mesh, const char* name, Tensor& out, const Tensor& a, const Tensor& b,
             kernels::Into into) {
  FOURFOLD_CHECK(out.size(0) == a.size(0) && out.size(1) == b.size(1) && a.size(1) == b.size(0),
                 name, ": shapes do not fit");
  const auto bytes = static_cast<std::int64_t>(a.nbytes() + b.nbytes() + out.nbytes());
  {
    const MemoryScope scope(MemoryClass::kWorkspace);
    kernels::multiply(out, a, b, into);
  }
  mesh.compute(name, schedule::product_of({a.size(0), a.size(1), b.size(1)},
                                          dtype_of(a.scalar_type()), Bytes(bytes)));
}

}  // namespace fourfold::tensor
