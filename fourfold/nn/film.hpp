// The scale and shift by sample that a block makes of the time embedding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/gathered_linear.hpp"

namespace fourfold::nn {

struct FilmSpec {
  std::string name;
  std::int64_t width = 0;     ///< of the embedding
  std::int64_t channels = 0;  ///< that are scaled and shifted
  bool transposed = false;    ///< these channels lie over y and then x, instead of the reverse
  Activations activations = Activations::kSharded;
  double deviation = 0;  ///< of the initial weights
};

/// The layer that makes the `film` of a GroupNorm of the same channels, `transposed` and
/// `activations`: a linear layer with 2 * channels outputs in the order [channel][scale|shift]. Its
/// input is what TimeEmbedding returns, and nothing is communicated over x and y, except that with
/// replicated activations the outputs are gathered along the axis of the copies.
GatheredLinearSpec film_spec(const FilmSpec& spec);

}  // namespace fourfold::nn
