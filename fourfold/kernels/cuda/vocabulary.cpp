// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/both/vocabulary.hpp"

#include "fourfold/kernels/cuda/functions.hpp"
#include "fourfold/kernels/cuda/run.hpp"
#include "fourfold/kernels/elements.hpp"

namespace fourfold::kernels::cuda {

void row_maxima(const Tensor& logits, std::int64_t valid, Tensor& largest) {
  dispatch(logits, [&]<class T>(T) {
    run_rows_on(logits, both::Maxima<T>{.logits = elements<const T>(logits),
                                        .valid = valid,
                                        .largest = elements<Wide<T>>(largest),
                                        .n = logits.size(1),
                                        .rows = logits.size(0)});
  });
}

void exponentials(Tensor& logits, std::int64_t valid, const Tensor& largest, const Tensor& targets,
                  const grid::Range& here, Tensor& sums) {
  dispatch(logits, [&]<class T>(T) {
    run_rows_on(logits, both::Exponentials<T>{.logits = elements<T>(logits),
                                              .valid = valid,
                                              .largest = elements<const Wide<T>>(largest),
                                              .targets = elements<const std::int64_t>(targets),
                                              .here = {here.begin, here.end},
                                              .sums = elements<Wide<T>>(sums),
                                              .n = logits.size(1),
                                              .rows = logits.size(0)});
  });
}

void softmax_loss_gradient(Tensor& exponentials, const Tensor& sums, const Tensor& targets,
                           const grid::Range& here, double weight) {
  dispatch(exponentials, [&]<class T>(T) {
    run_rows_on(exponentials,
                both::LossGradient<T>{.exponentials = elements<T>(exponentials),
                                      .sums = elements<const Wide<T>>(sums),
                                      .targets = elements<const std::int64_t>(targets),
                                      .here = {here.begin, here.end},
                                      .weight = static_cast<Wide<T>>(weight),
                                      .n = exponentials.size(1),
                                      .rows = exponentials.size(0)});
  });
}

}  // namespace fourfold::kernels::cuda
