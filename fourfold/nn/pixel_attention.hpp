// Self-attention over the pixels of images, on whole images and some of the heads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/conv.hpp"

namespace fourfold::nn {

struct PixelAttentionSpec {
  std::string name;
  std::int64_t heads = 0;
  std::int64_t channels = 0;
  /// That of the convolution before, which makes queries, keys and values.
  bool transposed = false;
};

/// Why attention cannot be split over a grid; empty if it can.
std::string pixel_attention_misfit(const PixelAttentionSpec& spec, const grid::Sizes& sizes);

/// Heads are split over both of x and y where these divide them: then queries, keys and values
/// leave their convolution by columns. Otherwise heads are split over the axis that the convolution
/// produces over, and leave it as copies along the other axis, whose ranks compute the same. This
/// is the `output` of the convolution before and the `input` of the one after. Throws ConfigError
/// where neither is possible.
Spread pixel_attention_spread(const PixelAttentionSpec& spec, const grid::Sizes& sizes);

/// `qkv` has a row for each (sample, pixel) and columns [head][q|k|v][head size] for the heads of
/// this rank. The result has columns [head][head size]. Memory is linear in the number of pixels,
/// as that of causal_attention. Differentiable. `layer` is the layer that schedules name for the
/// work; its text must outlive the graph.
Tensor pixel_attention(const Mesh& mesh, const Tensor& qkv, const PixelAttentionSpec& spec,
                       std::int64_t samples, std::string_view layer = {});

/// The flops of the forward pass of all ranks, by the usual count.
double pixel_attention_flops(const PixelAttentionSpec& spec, std::int64_t samples,
                             std::int64_t pixels);

}  // namespace fourfold::nn
