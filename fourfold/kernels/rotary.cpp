// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/rotary.hpp"

#include <cmath>
#include <numbers>

#include <ATen/ops/empty.h>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

/// The angle from one position to the next, stretched as Llama 3 does it.
double scaled(double speed, const RotaryScaling& s) {
  const auto original = static_cast<double>(s.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / speed;
  if (wavelength < original / s.high_freq_factor) return speed;
  if (wavelength > original / s.low_freq_factor) return speed / s.factor;
  const double smooth =
      (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * speed / s.factor + smooth * speed;
}

template <class A>
void fill_table(A* table, std::int64_t context, std::int64_t head_size, double theta,
                const std::optional<RotaryScaling>& scaling) {
  const std::int64_t pairs = head_size / 2;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(head_size);
    double speed = std::pow(theta, exponent);
    if (scaling) speed = scaled(speed, *scaling);
    for (std::int64_t position = 0; position < context; ++position) {
      const double angle = static_cast<double>(position) * speed;
      table[position * head_size + i] = static_cast<A>(std::cos(angle));
      table[position * head_size + pairs + i] = static_cast<A>(std::sin(angle));
    }
  }
}

}  // namespace

/// The table is computed once, by the processor, wherever it is used.
Tensor rotary_table(std::int64_t context, std::int64_t head_size, double theta,
                    const std::optional<RotaryScaling>& scaling, const at::TensorOptions& options) {
  FOURFOLD_CHECK(head_size % 2 == 0, "heads of ", head_size, " columns have no pairs");
  if (options.device().is_meta()) return at::empty({context, head_size}, options);
  Tensor table = at::empty({context, head_size}, options.device(at::kCPU));
  if (table.scalar_type() == at::kDouble) {
    fill_table(elements<double>(table), context, head_size, theta, scaling);
  } else {
    fill_table(elements<float>(table), context, head_size, theta, scaling);
  }
  return table.to(options.device());
}

void rotate_heads(const Tensor& matrix, const RotaryHeads& which, const Tensor& table,
                  Rotation rotation) {
  FOURFOLD_CHECK(matrix.dim() == 2 && matrix.stride(1) == 1 && table.is_contiguous());
  FOURFOLD_CHECK_EQ(table.size(1), which.head_size);
  FOURFOLD_CHECK(which.positions > 0 && matrix.size(0) % which.positions == 0);
  FOURFOLD_CHECK(which.first_position + which.positions <= table.size(0), "the table ends at ",
                 table.size(0));
  if (which.heads == 0 || matrix.size(0) == 0) return;
  FOURFOLD_CHECK(
      which.columns.begin(which.heads - 1, which.head_size) + which.head_size <= matrix.size(1),
      "a head ends behind the columns");
  if (matrix.is_meta()) return;
  functions_of(matrix).rotate_heads(matrix, which, table, rotation);
}

}  // namespace fourfold::kernels
