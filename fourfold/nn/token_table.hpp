// The table of tokens on the grid of the 4-D algorithm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/vocabulary_table.hpp"

namespace fourfold::nn {

/// The rows of the table are split over y, x and then z. The hidden dimension is whole. Sizes need
/// not divide. A lookup returns a hidden state of all the tokens, laid out as `activations` says.
class TokenTable final : public VocabularyTable {
 public:
  TokenTable(const Mesh& mesh, const TableSpec& spec, const Precision& precision,
             std::uint64_t seed);

  /// The result has all rows of the samples of this rank's data and z. Its columns are split over y
  /// and x.
  Flow<Tensor> logits_flow(Tensor hidden, const Pass& pass) const override;

 private:
  struct LogitsCall;

  // "Chunks" are a hidden state with all its columns, cut into the columns of each x, one below the
  // other.
  tensor::Pending spread(const Tensor& chunks) const;  // partial sums over x and y -> hidden state
  Tensor end_spread(tensor::Pending& spreading) const;
  tensor::Pending collect(const Tensor& hidden) const;  // a hidden state -> its chunks
  tensor::Pending start_lookup(const Tensor& tokens, tensor::InFlight& in_flight) const override;
  Tensor end_lookup(tensor::Pending& rows) const override { return end_spread(rows); }
  tensor::Pending start_lookup_gradient(const Tensor& gradient) const override {
    return collect(gradient);
  }
  void add_lookup_gradient(const Tensor& chunks, const Tensor& tokens,
                           Parameter::Use& use) const override;
  Tensor multiply(const Tensor& chunks, tensor::InFlight& in_flight) const;
  void backward_products(LogitsCall& call, const Tensor& gradient) const;

  std::int64_t chunks_;
};

}  // namespace fourfold::nn
