// Generates text with a transformer, one token after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fourfold/model/transformer.hpp"

namespace fourfold::model {

struct Sampling {
  double temperature = 1;  ///< 0: always the likeliest token
  std::int64_t top_k = 0;  ///< draw only from this many likeliest tokens; 0: all
  std::uint64_t seed = 1;
};

/// Draws a token by these logits. The result is a function of the logits, the seed and `index`.
/// Throws Error when a logit is not a number.
std::int64_t pick_token(std::span<const double> logits, const Sampling& sampling,
                        std::uint64_t index);

/// The logits of the token that follows `tokens`, for the first `vocabulary` tokens. If there are
/// more tokens than the context, the last ones are used. The result is the same on all ranks;
/// collective. The model must be made for one sample with replicated activations, or with SUMMA for
/// one sample for each row of ranks.
std::vector<double> next_logits(const Mesh& mesh, const Transformer& model,
                                std::span<const std::int64_t> tokens, std::int64_t vocabulary);

}  // namespace fourfold::model
