// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/channels.hpp"

#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

/// `numbers` are samples × channels of the images x, and contiguous.
void check_channels(const Tensor& x, const std::vector<Tensor>& numbers) {
  FOURFOLD_CHECK(x.dim() == 2 && x.is_contiguous());
  const Tensor& first = numbers.front();
  FOURFOLD_CHECK(first.size(1) == x.size(1) && x.size(0) % first.size(0) == 0);
  for (const Tensor& one : numbers) {
    FOURFOLD_CHECK(one.is_contiguous() && one.sizes() == first.sizes());
  }
}

void check_alike(const Tensor& x, const Tensor& other) {
  FOURFOLD_CHECK(other.is_contiguous() && other.sizes() == x.sizes());
}

}  // namespace

void channel_moments(const Tensor& x, Tensor& mean, Tensor& squares) {
  check_channels(x, {mean, squares});
  if (x.is_meta()) return;
  functions_of(x).channel_moments(x, mean, squares);
}

void scale_channels(const Tensor& x, const ChannelScale& by, Tensor& y) {
  check_channels(x, {by.scale, by.shift});
  check_alike(x, y);
  if (x.is_meta()) return;
  functions_of(x).scale_channels(x, by, y);
}

void channel_sums(const Tensor& dy, const Tensor& x, const ChannelScale& by, const Tensor& centre,
                  Tensor& sums, Tensor& products) {
  check_channels(x, {by.scale, by.shift, centre, sums, products});
  check_alike(x, dy);
  if (x.is_meta()) return;
  functions_of(x).channel_sums(dy, x, by, centre, sums, products);
}

void scale_channels_backward(const Tensor& dy, const Tensor& x, const ChannelScale& by,
                             const Tensor& centre, const ChannelGradient& gradient, Tensor& dx) {
  check_channels(x, {by.scale, by.shift, centre, gradient.a, gradient.b, gradient.c});
  check_alike(x, dy);
  check_alike(x, dx);
  if (x.is_meta()) return;
  functions_of(x).scale_channels_backward(dy, x, by, centre, gradient, dx);
}

}  // namespace fourfold::kernels
