// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/vocabulary.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

void check_tokens(const Tensor& tokens, std::int64_t vocabulary) {
  if (tokens.is_meta()) return;
  const Tensor here = tokens.cpu();
  const auto* ids = elements<const std::int64_t>(here);
  for (std::int64_t i = 0; i < here.numel(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    throw ConfigError(concat("token ", ids[i], " is not in the vocabulary of ", vocabulary));
  }
}

void lookup_rows(const Tensor& table, const Tensor& tokens, const grid::Range& here, Tensor& out) {
  if (table.is_meta()) return;
  functions_of(table).lookup_rows(table, tokens, here, out);
}

void add_to_rows(const Tensor& gradient, const Tensor& tokens, const grid::Range& here,
                 Tensor& sum) {
  if (sum.is_meta()) return;
  functions_of(sum).add_to_rows(gradient, tokens, here, sum);
}

void row_maxima(const Tensor& logits, std::int64_t valid, Tensor& largest) {
  if (logits.is_meta()) return;
  functions_of(logits).row_maxima(logits, valid, largest);
}

void exponentials(Tensor& logits, std::int64_t valid, const Tensor& largest, const Tensor& targets,
                  const grid::Range& here, Tensor& sums) {
  if (logits.is_meta()) return;
  functions_of(logits).exponentials(logits, valid, largest, targets, here, sums);
}

void softmax_loss_gradient(Tensor& exponentials, const Tensor& sums, const Tensor& targets,
                           const grid::Range& here, double weight) {
  if (exponentials.is_meta()) return;
  functions_of(exponentials).softmax_loss_gradient(exponentials, sums, targets, here, weight);
}

}  // namespace fourfold::kernels
