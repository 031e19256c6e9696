// Models of one process, written with libtorch's own operations: what every grid must agree with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>

#include "fourfold/model/gpt.hpp"
#include "fourfold/model/llama.hpp"

namespace fourfold::test {

using at::Tensor;

/// Whole parameters by name.
using Weights = std::map<std::string, Tensor>;

struct ReferenceResult {
  Tensor logits;
  double loss = 0;
  double norm = 0;  ///< of all gradients together
  Weights gradients;
};

/// The initial parameters of a model.
Weights weights_of(const model::Model& model);

/// The parameters that every rank initialises its part of, in the master type.
Weights initial_weights(const model::GptSpec& spec);
Weights initial_weights(const model::LlamaSpec& spec);

/// With noise added, so that no bias is zero and no scale one.
Weights perturbed(const Weights& weights);

/// The values that parameters of this precision compute with, exactly: rounded as they hold them
/// (matrices in the type of computation, vectors in the master type) and then widened.
Weights in_float64(const Weights& weights, const nn::Precision& precision);

/// One forward and backward pass over all samples, in the type of the weights. With `training`,
/// dropout multiplies by our masks.
ReferenceResult run_reference(const model::GptSpec& spec, const Weights& weights,
                              const Tensor& tokens, const Tensor& targets, std::uint64_t step,
                              bool training);

ReferenceResult run_reference(const model::LlamaSpec& spec, const Weights& weights,
                              const Tensor& tokens, const Tensor& targets);

/// The same for any model: `logits` of tokens.
using LogitsOf = std::function<Tensor(const Weights& weights, const Tensor& tokens)>;
ReferenceResult run_reference(const LogitsOf& logits, const Weights& weights, const Tensor& tokens,
                              const Tensor& targets);

/// Deterministic tokens, samples × context.
Tensor some_tokens(std::int64_t samples, std::int64_t context, std::int64_t vocabulary, int seed);

/// The part of a whole tensor that lies in `block`.
Tensor block_of(const Tensor& whole, const grid::Block& block);

/// max|a - b| / max|scale|.
double relative_error(const Tensor& a, const Tensor& b, const Tensor& scale);

}  // namespace fourfold::test
