// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/resample.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

void check_sizes(const Tensor& small, const Tensor& large, std::int64_t height,
                 std::int64_t width) {
  FOURFOLD_CHECK(small.dim() == 2 && small.is_contiguous() && large.is_contiguous());
  FOURFOLD_CHECK_EQ(small.size(0) % (height * width), 0, "rows of whole images");
  FOURFOLD_CHECK(large.dim() == 2 && large.size(0) == 4 * small.size(0) &&
                 large.size(1) == small.size(1));
}

}  // namespace

void spread_pixels(const Tensor& small, std::int64_t height, std::int64_t width, double factor,
                   Tensor& large) {
  check_sizes(small, large, height, width);
  if (small.is_meta()) return;
  functions_of(small).spread_pixels(small, height, width, factor, large);
}

void collect_pixels(const Tensor& large, std::int64_t height, std::int64_t width, double factor,
                    Tensor& small) {
  check_sizes(small, large, height, width);
  if (small.is_meta()) return;
  functions_of(small).collect_pixels(large, height, width, factor, small);
}

}  // namespace fourfold::kernels
