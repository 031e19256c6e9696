// The place of a rank's images among those of the whole batch, which dropout is a function of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/kernels/random.hpp"
#include "fourfold/nn/rows.hpp"

namespace fourfold::nn {

/// Rows are numbered over all samples of the step, `pixels` for each sample. `channels` are those
/// of all ranks, and lie over `axes` (see channel_axes). For `nn::dropout`.
kernels::Window2 image_window(const Mesh& mesh, const Batch& batch, std::int64_t pixels,
                              std::int64_t channels, const grid::Axes& axes);

}  // namespace fourfold::nn
