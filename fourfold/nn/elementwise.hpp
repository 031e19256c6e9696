// Operations on each element alone: activation, dropout, residual sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

// `layer` is the layer that schedules and timelines name for the work. Its text must outlive the
// graph.

/// GELU in the tanh form of GPT-2.
Tensor gelu(const Mesh& mesh, const Tensor& input, std::string_view layer = {});

/// SiLU: x / (1 + exp(-x)).
Tensor silu(const Mesh& mesh, const Tensor& input, std::string_view layer = {});

/// SwiGLU: columns 2i and 2i + 1 are gate and up, and column i of the result is silu(gate) * up.
Tensor swiglu(const Mesh& mesh, const Tensor& input, std::string_view layer = {});

/// a + b.
Tensor residual(const Mesh& mesh, const Tensor& a, const Tensor& b, std::string_view layer = {});

/// Drops elements with probability p and divides the others by 1-p. Which elements are dropped is a
/// function of the key and of each element's place in the whole tensor. The mask is drawn again for
/// the gradient instead of being kept. With p = 0 the result is the input itself.
Tensor dropout(const Mesh& mesh, const Tensor& input, double p, kernels::Key key,
               const kernels::Window2& window, std::string_view layer = {});

}  // namespace fourfold::nn
