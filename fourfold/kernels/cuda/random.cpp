// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/both/dropout.hpp"
#include "fourfold/kernels/cuda/functions.hpp"
#include "fourfold/kernels/cuda/run.hpp"
#include "fourfold/kernels/elements.hpp"

namespace fourfold::kernels::cuda {

namespace {

template <class T>
both::Dropout<T> dropout_of(const Window2& window, Key key, double p, double scale) {
  return {.key = key.value,
          .first_row = window.rows.begin,
          .first_column = window.columns.begin,
          .rows = window.rows.size(),
          .columns = window.columns.size(),
          .threshold = drop_threshold(p),
          .kept = static_cast<Wide<T>>(scale)};
}

}  // namespace

void fill_dropout_mask(Tensor& mask, const Window2& window, Key key, double p, double scale) {
  dispatch(mask, [&]<class T>(T) {
    run_elements_on(mask,
                    both::FillMask<T>{dropout_of<T>(window, key, p, scale), elements<T>(mask)});
  });
}

void apply_dropout(const Tensor& in, Tensor& out, const Window2& window, Key key, double p) {
  dispatch(in, [&]<class T>(T) {
    run_elements_on(in, both::ApplyDropout<T>{dropout_of<T>(window, key, p, 1 / (1 - p)),
                                              elements<const T>(in), elements<T>(out)});
  });
}

}  // namespace fourfold::kernels::cuda
