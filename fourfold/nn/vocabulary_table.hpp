// The table of tokens: a row of hidden size for each word of the vocabulary. Looked up to embed,
// and multiplied with to get logits, perhaps both.
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

class VocabularyTable {
 public:
  VocabularyTable(const VocabularyTable&) = delete;
  VocabularyTable& operator=(const VocabularyTable&) = delete;
  virtual ~VocabularyTable() = default;

  /// The rows of `tokens` (those of the samples of this rank's data and z) as a hidden state.
  Flow<Tensor> lookup_flow(Tensor tokens) const;
  Tensor lookup(const Tensor& tokens) const { return run(lookup_flow(tokens)); }

  /// hidden · tableᵀ, its columns split over `logit_axes`.
  virtual Flow<Tensor> logits_flow(Tensor hidden) const = 0;
  Tensor logits(const Tensor& hidden) const { return run(logits_flow(hidden)); }

  const grid::Axes& logit_axes() const { return logit_axes_; }
  /// The tokens whose logits this rank has; these are the rows of the table that it uses, too.
  const grid::Range& here() const { return here_; }
  const ParameterPtr& parameter() const { return parameter_; }
  const TableSpec& spec() const { return spec_; }

 protected:
  /// The way of rows to the hidden state, and back.
  virtual tensor::Pending start_lookup(const Tensor& tokens) const = 0;
  virtual Tensor end_lookup(tensor::Pending& rows) const = 0;
  virtual tensor::Pending start_lookup_gradient(const Tensor& gradient) const = 0;
  /// Of what has arrived, to the parameter's.
  virtual void add_lookup_gradient(const Tensor& arrived, const Tensor& tokens,
                                   Parameter::Use& use) const = 0;

  VocabularyTable(const Mesh& mesh, TableSpec spec, grid::Axes logit_axes)
      : mesh_(&mesh),
        spec_(std::move(spec)),
        logit_axes_(std::move(logit_axes)),
        here_(grid::range_along(spec_.vocabulary, logit_axes_, mesh.grid(), mesh.coord())) {}

  const Mesh* mesh_;
  TableSpec spec_;
  grid::Axes logit_axes_;
  grid::Range here_;
  ParameterPtr parameter_;
};

}  // namespace fourfold::nn
