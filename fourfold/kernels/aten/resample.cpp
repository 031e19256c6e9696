// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

/// Lines of small images × (lines of large ones for each) × pixels × (pixels for each) × channels.
Tensor fours(const Tensor& large, std::int64_t width) {
  return large.view({large.size(0) / (4 * width), 2, width, 2, large.size(1)});
}

}  // namespace

void spread_pixels(const Tensor& small, std::int64_t /*height*/, std::int64_t width, double factor,
                   Tensor& large) {
  const NoGraph guard;
  const Tensor values = wide(small).mul(factor);
  fours(large, width).copy_(values.view({small.size(0) / width, 1, width, 1, small.size(1)}));
}

void collect_pixels(const Tensor& large, std::int64_t /*height*/, std::int64_t width, double factor,
                    Tensor& small) {
  const NoGraph guard;
  small.copy_(wide(fours(large, width)).sum({1, 3}).mul_(factor).view(small.sizes()));
}

}  // namespace fourfold::kernels::aten
