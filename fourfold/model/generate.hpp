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

/// A text that grows by a token at a time. Keys and values of earlier positions are kept, so that a
/// token costs as much at position 1000 as at position 10, except for attention. The same logits as
/// `next_logits` where the text is no longer than the context. A model with a table of positions
/// reads the last tokens afresh when the text becomes longer; other models go on.
class Text {
 public:
  Text(const Mesh& mesh, const Transformer& model, std::vector<std::int64_t> tokens)
      : mesh_(&mesh), model_(&model), tokens_(std::move(tokens)) {}

  /// The logits of the token that follows; collective.
  std::vector<double> next_logits(std::int64_t vocabulary);
  void add(std::int64_t token) { tokens_.push_back(token); }
  const std::vector<std::int64_t>& tokens() const { return tokens_; }

 private:
  const Mesh* mesh_;
  const Transformer* model_;
  std::vector<std::int64_t> tokens_;
  nn::KvCache cache_;
};

}  // namespace fourfold::model
