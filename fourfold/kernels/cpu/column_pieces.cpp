// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// Calls `copy(place in rows, place in stacked, bytes)` for the columns of a piece in each row.
/// Places are bytes from the beginning.
template <class Copy>
void for_each_piece(const Tensor& rows, const Tensor& stacked, const Copy& copy) {
  const auto count = static_cast<std::size_t>(rows.size(0));
  const auto pieces = static_cast<std::size_t>(rows.size(1) / stacked.size(1));
  const std::size_t bytes = static_cast<std::size_t>(stacked.size(1)) * stacked.element_size();
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      copy((row * pieces + piece) * bytes, (piece * count + row) * bytes, bytes);
    }
  }
}

}  // namespace

void merge_pieces(const Tensor& stacked, Tensor& rows) {
  const auto* from = static_cast<const char*>(stacked.data_ptr());
  auto* to = static_cast<char*>(rows.data_ptr());
  for_each_piece(rows, stacked, [&](std::size_t in_rows, std::size_t in_stacked, std::size_t n) {
    std::memcpy(to + in_rows, from + in_stacked, n);
  });
}

void stack_pieces(const Tensor& rows, Tensor& stacked) {
  const auto* from = static_cast<const char*>(rows.data_ptr());
  auto* to = static_cast<char*>(stacked.data_ptr());
  for_each_piece(rows, stacked, [&](std::size_t in_rows, std::size_t in_stacked, std::size_t n) {
    std::memcpy(to + in_stacked, from + in_rows, n);
  });
}

}  // namespace fourfold::kernels::cpu
