// Text from a GPT: the next token, again and again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fourfold/model/gpt.hpp"

namespace fourfold::model {

struct Sampling {
  double temperature = 1;  ///< 0: always the likeliest token
  std::int64_t top_k = 0;  ///< only the likeliest so many; 0: all
  std::uint64_t seed = 1;
};

/// A token drawn by these logits; a function of them, the seed and `index`. Throws Error when a
/// logit is not a number.
std::int64_t pick_token(std::span<const double> logits, const Sampling& sampling,
                        std::uint64_t index);

/// The logits of the token that follows `tokens`, of the first `vocabulary` tokens; of more tokens
/// than the context the last ones count. The same on all ranks; collective. The model is one for
/// one sample with replicated activations, or with SUMMA for one sample a row of ranks.
std::vector<double> next_logits(const Mesh& mesh, const Gpt& gpt,
                                std::span<const std::int64_t> tokens, std::int64_t vocabulary);

}  // namespace fourfold::model
