// The table of tokens on a square of ranks, for SUMMA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/summa.hpp"
#include "fourfold/nn/vocabulary_table.hpp"

namespace fourfold::nn {

/// Lies like the weight of a linear layer: its rows are split over x, its columns over y, and along
/// z all ranks have the same. So logits cost what a linear layer costs, and panels of logits never
/// travel; a lookup has its result on the other side of the square's diagonal, which is one small
/// message: rows (data, z, y) of those of the tokens, columns split over x. The vocabulary need not
/// divide.
class SummaTable final : public VocabularyTable {
 public:
  /// Throws ConfigError when the ranks are no square, or do not divide the width.
  SummaTable(const Mesh& mesh, const TableSpec& spec, const Precision& precision,
             std::uint64_t seed);

  /// The rows of the hidden state; the columns are split over x.
  Flow<Tensor> logits_flow(Tensor hidden) const override {
    return product_->flow(std::move(hidden), Tensor());
  }

 private:
  tensor::Pending start_lookup(const Tensor& tokens) const override;
  Tensor end_lookup(tensor::Pending& rows) const override { return across(rows.wait()); }
  tensor::Pending start_lookup_gradient(const Tensor& gradient) const override;
  void add_lookup_gradient(const Tensor& gradient, const Tensor& tokens,
                           Parameter::Use& use) const override;
  /// The block of the rank on the other side of the diagonal.
  Tensor across(const Tensor& block) const;

  std::unique_ptr<SummaProduct> product_;
};

}  // namespace fourfold::nn
