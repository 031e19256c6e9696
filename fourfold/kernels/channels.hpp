// Loops over images that are stored as rows (kernels/conv.hpp), with numbers for each channel of
// each sample: what a group norm, a scale and a shift by sample, and SiLU need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

// Rows are samples * pixels × channels; numbers of channels are samples × channels, in the type of
// statistics (kernels/elements.hpp). All tensors are contiguous. For meta tensors nothing is done.

/// The mean of each channel, and the sum of the squares of the distances from it.
void channel_moments(const Tensor& x, Tensor& mean, Tensor& squares);

/// y = f(x * scale + shift), where f is SiLU or nothing.
struct ChannelScale {
  Tensor scale;
  Tensor shift;
  bool silu = false;
};
void scale_channels(const Tensor& x, const ChannelScale& by, Tensor& y);

/// Let dz be the gradient of x * scale + shift. The sums over the pixels of dz, and of
/// dz * (x - centre).
void channel_sums(const Tensor& dy, const Tensor& x, const ChannelScale& by, const Tensor& centre,
                  Tensor& sums, Tensor& products);

/// dx = dz * a + (x - centre) * b + c.
struct ChannelGradient {
  Tensor a;
  Tensor b;
  Tensor c;
};
void scale_channels_backward(const Tensor& dy, const Tensor& x, const ChannelScale& by,
                             const Tensor& centre, const ChannelGradient& gradient, Tensor& dx);

}  // namespace fourfold::kernels
