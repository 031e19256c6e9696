// The types of elements of tensors in files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string_view>

namespace fourfold::formats {

/// The types in the order of the reference implementation of safetensors: alignment never
/// decreases.
enum class Dtype {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

/// The name in files: "BF16", "F8_E4M3".
std::string_view to_string(Dtype dtype);
std::ostream& operator<<(std::ostream& out, Dtype dtype);

/// The type with that name in files; nothing when there is none.
std::optional<Dtype> parse_dtype(std::string_view name);

/// The bits of one element.
int bits(Dtype dtype);

/// The bytes of a tensor. Nothing when a dimension is negative, when the number of bits does not
/// fit into 64, or when the bits are not whole bytes.
std::optional<std::int64_t> byte_size(Dtype dtype, std::span<const std::int64_t> shape);

}  // namespace fourfold::formats
