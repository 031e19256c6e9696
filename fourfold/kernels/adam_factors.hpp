// The numbers of a step of AdamW as its elements use them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "fourfold/kernels/adamw.hpp"
#include "fourfold/kernels/both/adamw.hpp"

namespace fourfold::kernels {

template <class A>
both::AdamFactors<A> adam_factors(const AdamStep& s) {
  const double correction1 = 1 - std::pow(s.beta1, static_cast<double>(s.step));
  const double correction2 = 1 - std::pow(s.beta2, static_cast<double>(s.step));
  return {.keep = static_cast<A>(1 - s.rate * s.decay),
          .beta1 = static_cast<A>(s.beta1),
          .beta2 = static_cast<A>(s.beta2),
          .scale = static_cast<A>(s.gradient_scale),
          .mean_decay = static_cast<A>(s.mean_decay),
          .epsilon = static_cast<A>(s.epsilon),
          .rate = static_cast<A>(s.rate / correction1),
          .root = static_cast<A>(1 / std::sqrt(correction2))};
}

}  // namespace fourfold::kernels
