// The arithmetic on this rank's part of a vocabulary: rows of the table, and the softmax over the
// logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/grid/block.hpp"
#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// Throws ConfigError unless all tokens are in the vocabulary.
void check_tokens(const Tensor& tokens, std::int64_t vocabulary);

/// out[c][t] = chunk c of the columns of the row of token t, or zero if the token is not among
/// `here`. `out` has the shape chunks × tokens × (width / chunks). Row r of the table belongs to
/// token here.begin + r.
void lookup_rows(const Tensor& table, const Tensor& tokens, const grid::Range& here, Tensor& out);

/// The reverse: adds gradient[c][t] to the row of token t in `sum`.
void add_to_rows(const Tensor& gradient, const Tensor& tokens, const grid::Range& here,
                 Tensor& sum);

/// largest[r] = the maximum of the first `valid` logits of row r; -infinity if there are none.
void row_maxima(const Tensor& logits, std::int64_t valid, Tensor& largest);

/// Replaces logits by exp(logit - largest) for the first `valid`, else by 0. sums[0][r] = the sum
/// of these, sums[1][r] = logit - largest of the target if it is among `here`, else 0.
void exponentials(Tensor& logits, std::int64_t valid, const Tensor& largest, const Tensor& targets,
                  const grid::Range& here, Tensor& sums);

/// Replaces exponentials by weight * (exponential / sums[0] - (1 if it is the target)).
void softmax_loss_gradient(Tensor& exponentials, const Tensor& sums, const Tensor& targets,
                           const grid::Range& here, double weight);

}  // namespace fourfold::kernels
