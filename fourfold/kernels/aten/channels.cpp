// Numbers for each channel of each sample.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sub.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

/// Images as samples × pixels × channels, in the type of statistics.
Tensor images_of(const Tensor& x, const Tensor& numbers) {
  const std::int64_t samples = numbers.size(0);
  return wide(x).view({samples, x.size(0) / samples, x.size(1)});
}

/// Numbers of channels, for all pixels of their sample.
Tensor of_pixels(const Tensor& numbers) {
  return numbers.unsqueeze(1);
}

Tensor scaled(const Tensor& images, const ChannelScale& by) {
  return images.mul(of_pixels(by.scale)).add_(of_pixels(by.shift));
}

/// The gradient of x * scale + shift.
Tensor upstream_of(const Tensor& dy, const Tensor& images, const ChannelScale& by) {
  const Tensor upstream = wide(dy).view(images.sizes());
  return by.silu ? at::silu_backward(upstream, scaled(images, by)) : upstream;
}

}  // namespace

void channel_moments(const Tensor& x, Tensor& mean, Tensor& squares) {
  const NoGraph guard;
  const Tensor images = images_of(x, mean);
  mean.copy_(images.mean(1));
  squares.copy_(at::sub(images, of_pixels(mean)).square_().sum(1));
}

void scale_channels(const Tensor& x, const ChannelScale& by, Tensor& y) {
  const NoGraph guard;
  const Tensor z = scaled(images_of(x, by.scale), by);
  y.copy_((by.silu ? at::silu(z) : z).view(x.sizes()));
}

void channel_sums(const Tensor& dy, const Tensor& x, const ChannelScale& by, const Tensor& centre,
                  Tensor& sums, Tensor& products) {
  const NoGraph guard;
  const Tensor images = images_of(x, by.scale);
  const Tensor dz = upstream_of(dy, images, by);
  sums.copy_(dz.sum(1));
  products.copy_(at::sub(images, of_pixels(centre)).mul_(dz).sum(1));
}

void scale_channels_backward(const Tensor& dy, const Tensor& x, const ChannelScale& by,
                             const Tensor& centre, const ChannelGradient& gradient, Tensor& dx) {
  const NoGraph guard;
  const Tensor images = images_of(x, by.scale);
  const Tensor dz = upstream_of(dy, images, by);
  const Tensor inner = at::sub(images, of_pixels(centre)).mul_(of_pixels(gradient.b));
  inner.addcmul_(dz, of_pixels(gradient.a)).add_(of_pixels(gradient.c));
  dx.copy_(inner.view(dx.sizes()));
}

}  // namespace fourfold::kernels::aten
