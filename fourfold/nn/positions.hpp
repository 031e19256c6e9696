// The table of positions: one row for each position of the context, added to the hidden state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/rows.hpp"

namespace fourfold::nn {

/// The columns of the table are split like those of the hidden state, over x, and the rows over y
/// and z.
class Positions final : public Layer {
 public:
  Positions(const Mesh& mesh, const std::string& name, std::int64_t context, std::int64_t width,
            Activations activations, const Precision& precision, std::uint64_t seed,
            double deviation = 0.02);

  /// Returns `hidden` plus, for each row, the table's row of its position. Overwrites the memory of
  /// `hidden`.
  Tensor add_to(const Tensor& hidden, const Batch& batch, const Pass& pass) const;

  const ParameterPtr& parameter() const { return parameter_; }

 private:
  Tensor forward(const Tensor& hidden, const Batch& batch, tensor::InFlight& in_flight) const;
  void backward(const Tensor& gradient, const Batch& batch, Parameter::Use& use) const;

  Activations activations_;
  ParameterPtr parameter_;
};

}  // namespace fourfold::nn
