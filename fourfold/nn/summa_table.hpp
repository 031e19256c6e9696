// The table of tokens on a square of ranks, for SUMMA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/summa.hpp"
#include "fourfold/nn/vocabulary_table.hpp"

namespace fourfold::nn {

/// The table is laid out like the weight of a linear layer: its rows are split over x, its columns
/// over y, and all ranks along z have the same. So logits cost as much as a linear layer, and
/// panels of logits are never sent. The result of a lookup is first on the other side of the
/// square's diagonal, and one small message moves it: its rows are (data, z, y) of those of the
/// tokens, and its columns are split over x. The size of the vocabulary need not divide.
class SummaTable final : public VocabularyTable {
 public:
  /// Throws ConfigError when the ranks do not form a square, or do not divide the width.
  SummaTable(const Mesh& mesh, const TableSpec& spec, const Precision& precision,
             std::uint64_t seed);

  /// The result has the rows of the hidden state. Its columns are split over x.
  Flow<Tensor> logits_flow(Tensor hidden, const Pass& pass) const override {
    return product_->flow(std::move(hidden), Tensor(), pass);
  }

 private:
  tensor::Pending start_lookup(const Tensor& tokens, tensor::InFlight& in_flight) const override;
  Tensor end_lookup(tensor::Pending& rows) const override { return across(rows.wait()); }
  tensor::Pending start_lookup_gradient(const Tensor& gradient) const override;
  void add_lookup_gradient(const Tensor& gradient, const Tensor& tokens,
                           Parameter::Use& use) const override;
  /// Exchanges blocks with the rank on the other side of the diagonal, and returns that rank's
  /// block.
  Tensor across(const Tensor& block) const;

  std::unique_ptr<SummaProduct> product_;
};

}  // namespace fourfold::nn
