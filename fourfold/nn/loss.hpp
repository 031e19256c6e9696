// Cross-entropy over a vocabulary whose logits are split over the ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/vocabulary_table.hpp"

namespace fourfold::nn {

/// The sum of the losses of the rows of `logits`, divided by `tokens`. It is the same on all ranks
/// along the table's `logit_axes`. Summed over the other axes (`total_loss`) it is the mean loss,
/// if `tokens` is the number of all tokens. `logits` are those of `table`, and `targets` are the
/// tokens that should follow. Differentiable. The function overwrites the memory of the logits.
Flow<Tensor> cross_entropy_flow(const Mesh& mesh, const VocabularyTable& table, Tensor logits,
                                Tensor targets, std::int64_t tokens);
inline Tensor cross_entropy(const Mesh& mesh, const VocabularyTable& table, const Tensor& logits,
                            const Tensor& targets, std::int64_t tokens) {
  return run(cross_entropy_flow(mesh, table, logits, targets, tokens));
}

/// The sum over all ranks that have other rows, for reports.
Tensor total_loss(const Mesh& mesh, const Tensor& loss,
                  const grid::Axes& axes = {grid::Axis::kData, grid::Axis::kZ});

}  // namespace fourfold::nn
