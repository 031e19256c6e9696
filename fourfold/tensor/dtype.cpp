// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/dtype.hpp"

#include "fourfold/base/check.hpp"

namespace fourfold::tensor {

using schedule::DType;

DType dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return DType::kF64;
    case at::kFloat:
      return DType::kF32;
    case at::kBFloat16:
      return DType::kBF16;
    case at::kLong:
      return DType::kI64;
    default:
      throw InvariantError(concat("tensors of ", c10::toString(type), " are not communicated"));
  }
}

at::ScalarType scalar_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return at::kDouble;
    case DType::kF32:
      return at::kFloat;
    case DType::kBF16:
      return at::kBFloat16;
    case DType::kI64:
      return at::kLong;
  }
  throw InvariantError("no such element type");
}

}  // namespace fourfold::tensor
