// The arithmetic of layer norm and of RMS norm, cut where their statistics are communicated. Rows
// lie one after the other in memory. Statistics, scale and shift are float, or double for double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

// --- layer norm

/// stats[0][r] = the mean of row r, stats[1][r] = the sum of its squared distances from it.
void norm_statistics(const Tensor& x, Tensor& stats);

/// y = (x - mean) * rstd * scale + shift.
void norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& scale,
                const Tensor& shift, Tensor& y);

/// With n = (x - mean) * rstd and g = dy * scale: sums[0][r] = the sum of g over row r, sums[1][r]
/// = the sum of g * n. Adds dy * n to dscale and dy to dshift, column by column.
void norm_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& scale, Tensor& sums, Tensor& dscale, Tensor& dshift);

/// dx = rstd * (g - sums[0] / width - n * sums[1] / width).
void norm_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                         const Tensor& scale, const Tensor& sums, std::int64_t width, Tensor& dx);

/// The whole forward pass for rows that this rank has completely, while each row is in the cache:
/// stats = [mean, rstd].
void norm_whole(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                Tensor& stats, Tensor& y);

/// The whole backward pass for such rows.
void norm_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& stats,
                         const Tensor& scale, Tensor& dscale, Tensor& dshift, Tensor& dx);

// --- RMS norm: y = x * rstd * scale, where rstd is 1 / the root of the mean square of a row.

/// squares[r] = the sum of the squares of row r.
void rms_statistics(const Tensor& x, Tensor& squares);

/// Sets rstd = 1 / sqrt(squares / width + epsilon), where `squares` are the sums over whole rows of
/// `width` columns, and y = x * rstd * scale. `rstd` may be `squares`.
void rms_apply(const Tensor& x, const Tensor& squares, std::int64_t width, double epsilon,
               const Tensor& scale, Tensor& rstd, Tensor& y);

/// With n = x * rstd and g = dy * scale: sums[r] = the sum of g * n over row r. Adds dy * n to
/// dscale, column by column.
void rms_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                       Tensor& sums, Tensor& dscale);

/// dx = rstd * (g - n * sums / width), where `sums` are those over whole rows.
void rms_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        const Tensor& sums, std::int64_t width, Tensor& dx);

/// The whole forward and backward pass for rows that this rank has completely.
void rms_whole(const Tensor& x, const Tensor& scale, double epsilon, Tensor& rstd, Tensor& y);
void rms_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        Tensor& dscale, Tensor& dx);

}  // namespace fourfold::kernels
