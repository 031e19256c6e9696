// The table of tokens, with a row of hidden size for each word of the vocabulary. It is used for
// the embedding, for the logits, or for both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/linear.hpp"

namespace fourfold::nn {

struct TableSpec {
  std::string name;
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  Activations activations = Activations::kSharded;
  double deviation = 0.02;
};

class VocabularyTable : public Layer {
 public:
  /// The rows of `tokens` as a hidden state. `tokens` are those of the samples of this rank's data
  /// and z.
  Flow<Tensor> lookup_flow(Tensor tokens, const Pass& pass) const;
  Tensor lookup(const Tensor& tokens, const Pass& pass) const {
    return run(lookup_flow(tokens, pass));
  }

  /// Returns hidden · tableᵀ. Its columns are split over `logit_axes`.
  virtual Flow<Tensor> logits_flow(Tensor hidden, const Pass& pass) const = 0;
  Tensor logits(const Tensor& hidden, const Pass& pass) const {
    return run(logits_flow(hidden, pass));
  }

  const grid::Axes& logit_axes() const { return logit_axes_; }
  /// The tokens whose logits this rank has. They are also the rows of the table that this rank
  /// uses.
  const grid::Range& here() const { return here_; }
  const ParameterPtr& parameter() const { return parameter_; }
  const TableSpec& spec() const { return spec_; }

  /// Those of the logits. A lookup has none.
  double flops(const Batch& batch) const override;

 protected:
  /// These move rows of the table to the hidden state, and gradients back.
  virtual tensor::Pending start_lookup(const Tensor& tokens, tensor::InFlight& in_flight) const = 0;
  virtual Tensor end_lookup(tensor::Pending& rows) const = 0;
  virtual tensor::Pending start_lookup_gradient(const Tensor& gradient) const = 0;
  /// Adds the gradient that has arrived to the gradient of the parameter.
  virtual void add_lookup_gradient(const Tensor& arrived, const Tensor& tokens,
                                   Parameter::Use& use) const = 0;

  VocabularyTable(const Mesh& mesh, TableSpec spec, grid::Axes logit_axes)
      : Layer(mesh, spec.name),
        spec_(std::move(spec)),
        logit_axes_(std::move(logit_axes)),
        here_(grid::range_along(spec_.vocabulary, logit_axes_, mesh.grid(), mesh.coord())) {
    mesh.join(logit_axes_);
  }

  TableSpec spec_;
  grid::Axes logit_axes_;
  grid::Range here_;
  ParameterPtr parameter_;
};

}  // namespace fourfold::nn
