// Untyped views of the memory that operations read and write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "fourfold/base/bfloat16.hpp"
#include "fourfold/base/small_list.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::comm {

using schedule::DType;
using schedule::Priority;
using schedule::ReduceOp;

template <class T>
inline constexpr DType kDTypeOf = [] {
  static_assert(sizeof(T) == 0, "no such element type");
  return DType::kF32;
}();
template <>
inline constexpr DType kDTypeOf<double> = DType::kF64;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::kI64;

/// Where memory lies. It decides who carries an operation out: the engine, or the device of the
/// world. All buffers of an operation lie in one kind of memory, the same on all ranks.
enum class Memory : std::uint8_t { kHost, kDevice };

/// Memory to read. `owner`, if set, is kept alive until the operation is done. If `owner` is null,
/// the caller keeps the memory alive and unchanged until the operation's Work has been waited for.
struct ConstView {
  const void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::kF32;
  std::shared_ptr<const void> owner = nullptr;
  Memory memory = Memory::kHost;

  std::int64_t bytes() const { return count * schedule::size_of(dtype); }
};

/// Memory to write, or to read and write. Otherwise the same rules hold as for ConstView.
struct View {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::kF32;
  std::shared_ptr<const void> owner = nullptr;
  Memory memory = Memory::kHost;

  std::int64_t bytes() const { return count * schedule::size_of(dtype); }
  operator ConstView() const {
    return {data, count, dtype, owner, memory};
  }  // NOLINT: always right
};

/// Makes a View of the elements of a vector, array or span, or a ConstView if the elements are
/// const.
template <class Values>
auto view(Values&& values) {
  const std::span all(values);
  using Element = typename decltype(all)::element_type;
  const auto count = static_cast<std::int64_t>(all.size());
  constexpr DType kDType = kDTypeOf<std::remove_const_t<Element>>;
  if constexpr (std::is_const_v<Element>) {
    return ConstView{all.data(), count, kDType};
  } else {
    return View{all.data(), count, kDType};
  }
}

/// One tensor of an operation that reads one buffer and writes another.
struct InOut {
  ConstView in;
  View out;
};

/// The tensors of one operation.
using Buffers = SmallList<InOut>;

}  // namespace fourfold::comm
