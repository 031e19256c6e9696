// The table of tokens: a row of hidden size for each word of the vocabulary. Looked up to embed,
// and multiplied with to get logits, perhaps both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

struct TableSpec {
  std::string name;
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  Activations activations = Activations::kSharded;
  double deviation = 0.02;
};

/// Split over y, x and then z by rows; the hidden dimension is whole. Sizes need not divide.
class TokenTable {
 public:
  TokenTable(const Mesh& mesh, const TableSpec& spec, const Precision& precision,
             std::uint64_t seed);
  TokenTable(const TokenTable&) = delete;
  TokenTable& operator=(const TokenTable&) = delete;

  /// The rows of `tokens` (those of this rank's samples) as a hidden state.
  Flow<Tensor> lookup_flow(Tensor tokens) const;
  Tensor lookup(const Tensor& tokens) const { return run(lookup_flow(tokens)); }

  /// hidden · tableᵀ: all rows of this rank's samples, the columns split over y and x.
  Flow<Tensor> logits_flow(Tensor hidden) const;
  Tensor logits(const Tensor& hidden) const { return run(logits_flow(hidden)); }

  /// The tokens whose rows or logits this rank has during their use.
  const grid::Range& here() const { return here_; }
  const ParameterPtr& parameter() const { return parameter_; }
  const TableSpec& spec() const { return spec_; }

 private:
  struct LogitsCall;

  // The hidden state with all its columns, in chunks of those of each x, one below the other.
  tensor::Pending spread(const Tensor& chunks) const;  // partial sums over x and y -> hidden state
  Tensor end_spread(tensor::Pending& spreading) const;
  tensor::Pending collect(const Tensor& hidden) const;  // a hidden state -> its chunks
  tensor::Pending start_lookup(const Tensor& tokens) const;
  void add_lookup_gradient(const Tensor& chunks, const Tensor& tokens, Parameter::Use& use) const;
  Tensor multiply(const Tensor& chunks) const;
  void backward_products(LogitsCall& call, const Tensor& gradient) const;

  const Mesh* mesh_;
  TableSpec spec_;
  std::int64_t chunks_;
  grid::Range here_;
  ParameterPtr parameter_;
};

}  // namespace fourfold::nn
