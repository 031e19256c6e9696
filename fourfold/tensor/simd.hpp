// Loops compiled twice: for every processor, and for processors with wide vectors. The choice is
// made at run time (Choice::kVectors).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <ATen/core/Tensor.h>

#include "fourfold/base/processor.hpp"
#include "fourfold/comm/buffer.hpp"

namespace fourfold::tensor {

/// The type in which elements of T are computed.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

[[gnu::always_inline]] inline double widen(double value) {
  return value;
}
[[gnu::always_inline]] inline float widen(float value) {
  return value;
}
[[gnu::always_inline]] inline float widen(const comm::BFloat16& value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

template <class T>
[[gnu::always_inline]] inline T narrow(Wide<T> value) {
  if constexpr (std::is_same_v<T, comm::BFloat16>) {
    return comm::to_bfloat16(value);
  } else {
    return value;
  }
}

template <class T>
inline constexpr at::ScalarType kScalarType = c10::CppTypeToScalarType<T>::value;
template <>
inline constexpr at::ScalarType kScalarType<comm::BFloat16> = at::kBFloat16;

/// The elements of a tensor, which must have that type.
template <class T>
T* elements(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == kScalarType<std::remove_const_t<T>>,
              "a tensor of another element type: ", tensor.scalar_type());
  return static_cast<T*>(tensor.data_ptr());
}

#ifdef __x86_64__
#define FOURFOLD_WIDE [[gnu::target("avx2,fma")]]
#else
#define FOURFOLD_WIDE
#endif

/// Runs `Body::run` compiled for wide vectors. Body must be a struct with a static, always inlined
/// `run`.
template <class Body, class... Args>
FOURFOLD_WIDE void run_wide(Args... args) {
  Body::run(args...);
}

template <class Body, class... Args>
void run_vectorised(Args... args) {
  if (takes_special_way(Choice::kVectors)) {
    run_wide<Body, Args...>(args...);
  } else {
    Body::run(args...);
  }
}

/// Calls `body` with a value of the tensor's element type: double, float or comm::BFloat16.
template <class Body>
void dispatch(const at::Tensor& tensor, const Body& body) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return body(double{});
    case at::kFloat:
      return body(float{});
    case at::kBFloat16:
      return body(comm::BFloat16{});
    default:
      TORCH_CHECK(false, "no such element type here: ", tensor.scalar_type());
  }
}

}  // namespace fourfold::tensor
