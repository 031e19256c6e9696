// Images of twice and of half the size. Ranks have whole images: nothing is communicated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

// Images are rows × channels (kernels/conv.hpp). `layer` is the layer that schedules and timelines
// name for the work. Its text must outlive the graph.

/// Every pixel becomes a square of four: nearest up-sampling by 2. `height` and `width` are those
/// of the input.
Tensor enlarge(const Mesh& mesh, const Tensor& rows, std::int64_t height, std::int64_t width,
               std::string_view layer = {});

/// The mean of every square of four pixels: average pooling by 2. `height` and `width` are those of
/// the input, and even.
Tensor shrink(const Mesh& mesh, const Tensor& rows, std::int64_t height, std::int64_t width,
              std::string_view layer = {});

}  // namespace fourfold::nn
