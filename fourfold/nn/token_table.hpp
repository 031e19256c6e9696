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
  int uses = 1;  ///< in each forward pass, all of which go back; the gradient is reduced once,
                 ///< after the last
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
  Tensor lookup(const Tensor& tokens) const;

  /// hidden · tableᵀ: all rows of this rank's samples, the columns split over y and x.
  Tensor logits(const Tensor& hidden) const;

  /// The tokens whose rows or logits this rank has during their use.
  const grid::Range& here() const { return here_; }
  const ParameterPtr& parameter() const { return parameter_; }
  const TableSpec& spec() const { return spec_; }

 private:
  friend class LookupFunction;
  friend class LogitsFunction;

  // The hidden state with all its columns, in chunks of those of each x, one below the other.
  Tensor spread(const Tensor& chunks) const;   // partial sums over x and y -> a hidden state
  Tensor collect(const Tensor& hidden) const;  // a hidden state -> its chunks
  Tensor run_lookup(const Tensor& tokens) const;
  Tensor run_logits(const Tensor& hidden) const;
  Parameter::Slot gradient_slot() const;
  void end_use() const;

  const Mesh* mesh_;
  TableSpec spec_;
  std::int64_t chunks_;
  grid::Range here_;
  ParameterPtr parameter_;
  mutable Tensor pending_;  // the gradient of all rows that are here, until the last use
  mutable int uses_seen_ = 0;
};

}  // namespace fourfold::nn
