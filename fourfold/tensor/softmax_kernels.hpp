// The arithmetic of causal attention between its matrix products: one block of query rows against
// all keys up to them. Types are float or double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace fourfold::tensor {

/// A block of scores in memory: row r belongs to position `first + r`, which sees the keys 0 ..
/// first + r. Rows have `keys` = first + rows elements.
struct ScoreBlock {
  std::int64_t first = 0;
  std::int64_t rows = 0;
  std::int64_t keys = 0;
};

/// scores -> exp(scale * score - largest) for the keys that a row sees, else 0. logsum[r] = the
/// logarithm of the sum of exp(scale * score); inverse[r] = 1 / the sum of what was written.
void softmax_block(float* scores, const ScoreBlock& block, float scale, float* logsum,
                   float* inverse);
void softmax_block(double* scores, const ScoreBlock& block, double scale, double* logsum,
                   double* inverse);

/// scores -> the probabilities, from the logarithms of the sums.
void softmax_again(float* scores, const ScoreBlock& block, float scale, const float* logsum);
void softmax_again(double* scores, const ScoreBlock& block, double scale, const double* logsum);

/// Rows of `n` elements, `step` apart: row r times factors[r].
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

/// gradients -> scale * p * (gradient - dots[r]).
void softmax_gradient(float* gradients, const float* p, const ScoreBlock& block, float scale,
                      const float* dots);
void softmax_gradient(double* gradients, const double* p, const ScoreBlock& block, double scale,
                      const double* dots);

}  // namespace fourfold::tensor
