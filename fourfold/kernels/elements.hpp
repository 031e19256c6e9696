// The elements of tensors in the types that the kernels know: double, float and bf16.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "fourfold/base/bfloat16.hpp"
#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// The type in which statistics of tensors of `type` are kept: at least float.
inline at::ScalarType statistics_type(at::ScalarType type) {
  return type == at::kBFloat16 ? at::kFloat : type;
}

/// The type in which elements of T are computed.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

[[gnu::always_inline]] inline double widen(double value) {
  return value;
}
[[gnu::always_inline]] inline float widen(float value) {
  return value;
}
[[gnu::always_inline]] inline float widen(const BFloat16& value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

template <class T>
[[gnu::always_inline]] inline T narrow(Wide<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

template <class T>
inline constexpr at::ScalarType kScalarType = c10::CppTypeToScalarType<T>::value;
template <>
inline constexpr at::ScalarType kScalarType<BFloat16> = at::kBFloat16;

/// The elements of a tensor, which must have that type.
template <class T>
T* elements(const Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == kScalarType<std::remove_const_t<T>>,
              "a tensor of another element type: ", tensor.scalar_type());
  return static_cast<T*>(tensor.data_ptr());
}

/// Calls `body` with a value of the tensor's element type: double, float or BFloat16.
template <class Body>
void dispatch(const Tensor& tensor, const Body& body) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return body(double{});
    case at::kFloat:
      return body(float{});
    case at::kBFloat16:
      return body(BFloat16{});
    default:
      TORCH_CHECK(false, "no such element type here: ", tensor.scalar_type());
  }
}

}  // namespace fourfold::kernels
