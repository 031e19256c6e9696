// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/film.hpp"

namespace fourfold::nn {

GatheredLinearSpec film_spec(const FilmSpec& spec) {
  using Output = GatheredLinearSpec::Output;
  return {.name = spec.name,
          .in = spec.width,
          .out = 2 * spec.channels,
          .transposed = spec.transposed,
          .output = spec.activations == Activations::kSharded ? Output::kSplit : Output::kCopies,
          .deviation = spec.deviation};
}

}  // namespace fourfold::nn
