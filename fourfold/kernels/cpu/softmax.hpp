// The arithmetic of attention between its matrix products, for one block of query rows and all keys
// that they attend to. Types are float or double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::kernels::cpu {

/// A block of scores in memory, whose rows have `keys` elements. Row r belongs to position `first +
/// r`. If attention is causal, it attends to the keys 0 .. first + r, and `keys` = first + rows.
/// Otherwise it attends to all keys.
struct ScoreBlock {
  std::int64_t first = 0;
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  bool causal = true;

  /// The number of keys that row r attends to.
  std::int64_t seen(std::int64_t r) const { return causal ? first + r + 1 : keys; }
};

/// Replaces scores by exp(scale * score - largest) for the keys that a row attends to, else by 0.
/// logsum[r] = the logarithm of the sum of exp(scale * score); inverse[r] = 1 / the sum of the
/// values written.
void softmax_block(float* scores, const ScoreBlock& block, float scale, float* logsum,
                   float* inverse);
void softmax_block(double* scores, const ScoreBlock& block, double scale, double* logsum,
                   double* inverse);

/// Replaces scores by the probabilities, computed from the logarithms of the sums.
void softmax_again(float* scores, const ScoreBlock& block, float scale, const float* logsum);
void softmax_again(double* scores, const ScoreBlock& block, double scale, const double* logsum);

/// Multiplies row r by factors[r]. Rows have `n` elements and lie `step` apart.
void scale_rows(float* rows, std::int64_t count, std::int64_t n, std::int64_t step,
                const float* factors);
void scale_rows(double* rows, std::int64_t count, std::int64_t n, std::int64_t step,
                const double* factors);

/// dots[r] = the scalar product of row r of a and of b.
void row_dots(const float* a, const float* b, std::int64_t count, std::int64_t n, std::int64_t step,
              float* dots);
void row_dots(const double* a, const double* b, std::int64_t count, std::int64_t n,
              std::int64_t step, double* dots);

/// out = a * b; `out` may be a.
void multiply_into(float* out, const float* a, const float* b, std::int64_t n);
void multiply_into(double* out, const double* a, const double* b, std::int64_t n);

/// Replaces gradients by scale * p * (gradient - dots[r]).
void softmax_gradient(float* gradients, const float* p, const ScoreBlock& block, float scale,
                      const float* dots);
void softmax_gradient(double* gradients, const double* p, const ScoreBlock& block, double scale,
                      const double* dots);

}  // namespace fourfold::kernels::cpu
