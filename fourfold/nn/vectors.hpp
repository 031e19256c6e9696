// The vectors of a block (biases, scales, shifts): each rank has a part of each, and they travel
// together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

class Vectors {
 public:
  explicit Vectors(Parameters parameters) : parameters_(std::move(parameters)) {}
  Vectors(const Vectors&) = delete;
  Vectors& operator=(const Vectors&) = delete;

  /// The vectors as their layers use them, in the order given, brought together in one operation
  /// for each group of ranks. Differentiable: when the last of their gradients is there, all are
  /// reduced in one operation for each group, and added to the parameters.
  std::vector<Tensor> gather() const;

  const Parameters& parameters() const { return parameters_; }

 private:
  Parameters parameters_;
};

}  // namespace fourfold::nn
