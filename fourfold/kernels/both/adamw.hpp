// One element of a step of AdamW.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/both/compiler.hpp"

namespace fourfold::kernels::both {

/// The numbers of a step in the form in which elements use them.
template <class A>
struct AdamFactors {
  A keep;  ///< 1 - rate · decay
  A beta1;
  A beta2;
  A scale;       ///< of the gradient
  A mean_decay;  ///< of the mean of the values
  A epsilon;
  A rate;  ///< with the correction of the mean
  A root;  ///< the correction of the deviation

  /// Changes mean and square, and returns the new value.
  FOURFOLD_BOTH A updated(A value, A gradient, A& mean, A& square) const {
    const A g = gradient * scale;
    mean = beta1 * mean + (1 - beta1) * g;
    square = beta2 * square + (1 - beta2) * g * g;
    return keep * value - rate * mean / (std::sqrt(square) * root + epsilon);
  }

  FOURFOLD_BOTH A averaged(A value_mean, A value) const {
    return mean_decay * value_mean + (1 - mean_decay) * value;
  }
};

/// A whole step on n elements; `copy` and `value_mean` may be null.
template <class A>
struct AdamStepOf {
  AdamFactors<A> factors;
  A* value;
  const A* gradient;
  A* mean;
  A* square;
  BFloat16* copy;
  A* value_mean;
  std::int64_t n;

  constexpr std::int64_t count() const { return n; }
  FOURFOLD_BOTH void operator()(std::int64_t i) const {
    A m = mean[i];
    A v = square[i];
    const A now = factors.updated(value[i], gradient[i], m, v);
    mean[i] = m;
    square[i] = v;
    value[i] = now;
    if (copy != nullptr) copy[i] = to_bfloat16(static_cast<float>(now));
    if (value_mean != nullptr) value_mean[i] = factors.averaged(value_mean[i], now);
  }
};

}  // namespace fourfold::kernels::both
