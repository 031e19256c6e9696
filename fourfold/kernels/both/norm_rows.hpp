// What a team does with row r, for each of the functions of kernels/norm.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/both/norm.hpp"

namespace fourfold::kernels::both {

template <Norm kNorm, class T>
struct Statistics {
  const T* x;
  Wide<T>* mean;  ///< null for RMS norm
  Wide<T>* squares;
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    const auto moments = moments_of_row<kNorm>(team, x + r * n, n);
    if (team.thread() != 0) return;
    if constexpr (kNorm == Norm::kLayer) mean[r] = moments.mean;
    squares[r] = moments.squares;
  }
};

template <Norm kNorm, class T>
struct Apply {
  const T* x;
  const Wide<T>* mean;
  const Wide<T>* rstd;
  const Wide<T>* scale;
  const Wide<T>* shift;
  T* y;
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    const Wide<T> centre = kNorm == Norm::kLayer ? mean[r] : Wide<T>{};
    const NormRow<T> row{x + r * n, n, centre, rstd[r]};
    apply_to_row<kNorm>(team, row, scale, shift, y + r * n);
  }
};

/// RMS norm with the sums of squares of whole rows of `width` columns; `rstd` may be `squares`.
template <class T>
struct ApplyRms {
  const T* x;
  const Wide<T>* squares;
  Wide<T> width;
  Wide<T> epsilon;
  const Wide<T>* scale;
  Wide<T>* rstd;
  T* y;
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    const Wide<T> inverse = inverse_root(squares[r], width, epsilon);
    team.barrier();  // `rstd` may be what the others still read
    if (team.thread() == 0) rstd[r] = inverse;
    const NormRow<T> row{x + r * n, n, Wide<T>{}, inverse};
    apply_to_row<Norm::kRms>(team, row, scale, scale, y + r * n);
  }
};

template <Norm kNorm, class T>
struct WholeRows {
  const T* x;
  const Wide<T>* scale;
  const Wide<T>* shift;
  Wide<T> epsilon;
  Wide<T>* mean;
  Wide<T>* rstd;
  T* y;
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    const auto moments = moments_of_row<kNorm>(team, x + r * n, n);
    const Wide<T> inverse = inverse_root(moments.squares, static_cast<Wide<T>>(n), epsilon);
    if (team.thread() == 0) {
      if constexpr (kNorm == Norm::kLayer) mean[r] = moments.mean;
      rstd[r] = inverse;
    }
    const NormRow<T> row{x + r * n, n, moments.mean, inverse};
    apply_to_row<kNorm>(team, row, scale, shift, y + r * n);
  }
};

template <Norm kNorm, class T>
struct BackwardSums {
  const T* dy;
  const T* x;
  const Wide<T>* mean;
  const Wide<T>* rstd;
  const Wide<T>* scale;
  Wide<T>* first;  ///< null for RMS norm
  Wide<T>* second;
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    const Wide<T> centre = kNorm == Norm::kLayer ? mean[r] : Wide<T>{};
    const NormRow<T> row{x + r * n, n, centre, rstd[r]};
    const auto sums = sums_of_row<kNorm>(team, row, dy + r * n, scale);
    if (team.thread() != 0) return;
    if constexpr (kNorm == Norm::kLayer) first[r] = sums.first;
    second[r] = sums.second;
  }
};

/// With the sums over rows of `width` columns, or with those that it computes: `second` is null.
template <Norm kNorm, class T>
struct BackwardApply {
  const T* dy;
  const T* x;
  const Wide<T>* mean;
  const Wide<T>* rstd;
  const Wide<T>* scale;
  const Wide<T>* first;
  const Wide<T>* second;
  Wide<T> width;
  T* dx;
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    const Wide<T> centre = kNorm == Norm::kLayer ? mean[r] : Wide<T>{};
    const NormRow<T> row{x + r * n, n, centre, rstd[r]};
    RowSums<Wide<T>> sums{};
    if (second == nullptr) {
      sums = sums_of_row<kNorm>(team, row, dy + r * n, scale);
    } else {
      sums = {kNorm == Norm::kLayer ? first[r] : Wide<T>{}, second[r]};
    }
    gradient_of_row(team, row, dy + r * n, scale, sums, width, dx + r * n);
  }
};

}  // namespace fourfold::kernels::both
