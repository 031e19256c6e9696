// What acts on each element alone: activation, dropout, residual sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

// `layer` is whose work it is, in schedules and timelines; its text outlives the graph.

/// The tanh form of GPT-2.
Tensor gelu(const Mesh& mesh, const Tensor& input, std::string_view layer = {});

/// a + b.
Tensor residual(const Mesh& mesh, const Tensor& a, const Tensor& b, std::string_view layer = {});

/// Drops elements with probability p and divides the others by 1-p. Which ones is a function of the
/// key and of each element's place in the whole tensor. The mask is drawn again for the gradient
/// rather than kept. With p = 0 it is the input itself.
Tensor dropout(const Mesh& mesh, const Tensor& input, double p, tensor::Key key,
               const tensor::Window2& window, std::string_view layer = {});

}  // namespace fourfold::nn
