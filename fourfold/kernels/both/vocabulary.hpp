// The softmax over a part of the vocabulary, and its gradient: a row by a team.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "fourfold/kernels/both/compiler.hpp"

namespace fourfold::kernels::both {

/// The part of the vocabulary that the columns of logits stand for.
struct Part {
  std::int64_t begin;
  std::int64_t end;

  /// The column of a token, or -1.
  FOURFOLD_BOTH std::int64_t column_of(std::int64_t token) const {
    return token >= begin && token < end ? token - begin : -1;
  }
};

template <class T>
struct Maxima {
  const T* logits;
  std::int64_t valid;
  Wide<T>* largest;
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    const T* row = logits + r * n;
    Wide<T> found = -std::numeric_limits<Wide<T>>::infinity();
    for (std::int64_t i = team.thread(); i < valid; i += team.threads()) {
      const Wide<T> value = widen(row[i]);
      found = found < value ? value : found;
    }
    found = team.largest(found);
    if (team.thread() == 0) largest[r] = found;
  }
};

template <class T>
struct Exponentials {
  T* logits;
  std::int64_t valid;
  const Wide<T>* largest;
  const std::int64_t* targets;
  Part here;
  Wide<T>* sums;  ///< 2 × rows
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    T* row = logits + r * n;
    const Wide<T> shift = largest[r];
    if (team.thread() == 0) {
      const std::int64_t target = here.column_of(targets[r]);
      sums[rows + r] = target < 0 ? Wide<T>{} : widen(row[target]) - shift;
    }
    team.barrier();  // the target's logit has been read
    Wide<T> sum = 0;
    for (std::int64_t i = team.thread(); i < n; i += team.threads()) {
      const Wide<T> e = i < valid ? std::exp(widen(row[i]) - shift) : Wide<T>{};
      row[i] = narrow<T>(e);
      sum += e;
    }
    sum = team.sum(sum);
    if (team.thread() == 0) sums[r] = sum;
  }
};

template <class T>
struct LossGradient {
  T* exponentials;
  const Wide<T>* sums;
  const std::int64_t* targets;
  Part here;
  Wide<T> weight;
  std::int64_t n;
  std::int64_t rows;

  template <class Team>
  FOURFOLD_BOTH void operator()(Team& team, std::int64_t r) const {
    T* row = exponentials + r * n;
    const Wide<T> factor = weight / sums[r];
    const std::int64_t target = here.column_of(targets[r]);
    for (std::int64_t i = team.thread(); i < n; i += team.threads()) {
      // The target uses numbers that are not rounded: p - 1 may be a small difference.
      row[i] = narrow<T>(i == target ? weight * (std::exp(sums[rows + r]) / sums[r] - 1)
                                     : widen(row[i]) * factor);
    }
  }
};

}  // namespace fourfold::kernels::both
