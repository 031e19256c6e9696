// Layer norm and RMS norm, a row by a team, and the gradients of scale and shift, a column by a
// thread. RMS norm is layer norm without mean and shift.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/both/compiler.hpp"

namespace fourfold::kernels::both {

enum class Norm { kLayer, kRms };

/// The mean of a row (0 for RMS norm), and the sum of the squared distances from it.
template <class A>
struct RowMoments {
  A mean;
  A squares;
};

template <Norm kNorm, class T, class Team>
FOURFOLD_BOTH RowMoments<Wide<T>> moments_of_row(Team& team, const T* x, std::int64_t n) {
  using A = Wide<T>;
  A mean = 0;
  if constexpr (kNorm == Norm::kLayer) {
    A sum = 0;
    for (std::int64_t i = team.thread(); i < n; i += team.threads()) sum += widen(x[i]);
    mean = team.sum(sum) / static_cast<A>(n);
  }
  A squares = 0;
  for (std::int64_t i = team.thread(); i < n; i += team.threads()) {
    const A d = widen(x[i]) - mean;
    squares += d * d;
  }
  return {mean, team.sum(squares)};
}

/// 1 / the root of the mean square.
template <class A>
FOURFOLD_BOTH A inverse_root(A squares, A width, A epsilon) {
  return 1 / std::sqrt(squares / width + epsilon);
}

/// A row with its statistics.
template <class T>
struct NormRow {
  const T* x;
  std::int64_t n;
  Wide<T> mean;
  Wide<T> rstd;

  FOURFOLD_BOTH Wide<T> normal(std::int64_t i) const { return (widen(x[i]) - mean) * rstd; }
};

template <Norm kNorm, class T, class Team>
FOURFOLD_BOTH void apply_to_row(Team& team, const NormRow<T>& row, const Wide<T>* scale,
                                const Wide<T>* shift, T* y) {
  for (std::int64_t i = team.thread(); i < row.n; i += team.threads()) {
    Wide<T> value = row.normal(i) * scale[i];
    if constexpr (kNorm == Norm::kLayer) value += shift[i];
    y[i] = narrow<T>(value);
  }
}

/// The sums over a row of g = dy * scale (0 for RMS norm) and of g * n.
template <class A>
struct RowSums {
  A first;
  A second;
};

template <Norm kNorm, class T, class Team>
FOURFOLD_BOTH RowSums<Wide<T>> sums_of_row(Team& team, const NormRow<T>& row, const T* dy,
                                           const Wide<T>* scale) {
  using A = Wide<T>;
  A a = 0;
  A b = 0;
  for (std::int64_t i = team.thread(); i < row.n; i += team.threads()) {
    const A g = widen(dy[i]) * scale[i];
    a += g;
    b += g * row.normal(i);
  }
  if constexpr (kNorm == Norm::kRms) return {A{}, team.sum(b)};
  const A first = team.sum(a);
  return {first, team.sum(b)};
}

/// dx of a row, from the sums over rows of `width` columns.
template <class T, class Team>
FOURFOLD_BOTH void gradient_of_row(Team& team, const NormRow<T>& row, const T* dy,
                                   const Wide<T>* scale, const RowSums<Wide<T>>& sums,
                                   Wide<T> width, T* dx) {
  const Wide<T> a = sums.first / width;
  const Wide<T> b = sums.second / width;
  for (std::int64_t i = team.thread(); i < row.n; i += team.threads()) {
    dx[i] = narrow<T>(row.rstd * (widen(dy[i]) * scale[i] - a - row.normal(i) * b));
  }
}

/// The gradients of scale and shift. A thread sums some rows of a column, and then a thread sums
/// these parts, both in order.
template <class T>
struct ColumnSums {
  using A = Wide<T>;
  const T* dy;
  const T* x;
  const A* mean;  ///< null for RMS norm
  const A* rstd;
  std::int64_t rows;
  std::int64_t n;
  std::int64_t rows_of_part;
  A* parts;  ///< 2 × parts × n

  constexpr std::int64_t parts_count() const { return (rows + rows_of_part - 1) / rows_of_part; }
  constexpr std::int64_t count() const { return parts_count() * n; }

  FOURFOLD_BOTH void operator()(std::int64_t i) const {
    const std::int64_t c = i % n;
    const std::int64_t begin = i / n * rows_of_part;
    const std::int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
    A products = 0;
    A sum = 0;
    for (std::int64_t r = begin; r < end; ++r) {
      const A d = widen(dy[r * n + c]);
      const A centre = mean == nullptr ? A{} : mean[r];
      products += d * ((widen(x[r * n + c]) - centre) * rstd[r]);
      sum += d;
    }
    parts[i] = products;
    parts[count() + i] = sum;
  }
};

/// Adds the parts to the gradients; `dshift` may be null.
template <class A>
struct AddParts {
  const A* parts;
  std::int64_t parts_count;
  std::int64_t n;
  A* dscale;
  A* dshift;

  constexpr std::int64_t count() const { return n; }
  FOURFOLD_BOTH void operator()(std::int64_t c) const {
    A products = 0;
    A sum = 0;
    for (std::int64_t p = 0; p < parts_count; ++p) {
      products += parts[p * n + c];
      sum += parts[(parts_count + p) * n + c];
    }
    dscale[c] += products;
    if (dshift != nullptr) dshift[c] += sum;
  }
};

}  // namespace fourfold::kernels::both
