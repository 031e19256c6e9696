// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/dtype.hpp"

#include <array>
#include <cstddef>
#include <ostream>

namespace fourfold::formats {

namespace {

struct Row {
  std::string_view name;
  int bits;
};

/// In the order of the enum.
constexpr std::array<Row, static_cast<std::size_t>(Dtype::kU64) + 1> kRows = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};

const Row& row(Dtype dtype) {
  return kRows[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::string_view to_string(Dtype dtype) {
  return row(dtype).name;
}
std::ostream& operator<<(std::ostream& out, Dtype dtype) {
  return out << to_string(dtype);
}

std::optional<Dtype> parse_dtype(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

int bits(Dtype dtype) {
  return row(dtype).bits;
}

std::optional<std::int64_t> byte_size(Dtype dtype, std::span<const std::int64_t> shape) {
  std::int64_t total = bits(dtype);
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(total, dimension, &total)) return std::nullopt;
  }
  if (total % 8 != 0) return std::nullopt;
  return total / 8;
}

}  // namespace fourfold::formats
