// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/image_window.hpp"

namespace fourfold::nn {

kernels::Window2 image_window(const Mesh& mesh, const Batch& batch, std::int64_t pixels,
                              std::int64_t channels, const grid::Axes& axes) {
  const std::int64_t first = first_local_sample(mesh, batch);
  const std::int64_t samples = local_samples(mesh, batch);
  return {{first * pixels, (first + samples) * pixels},
          grid::range_along(channels, axes, mesh.grid(), mesh.coord())};
}

}  // namespace fourfold::nn
