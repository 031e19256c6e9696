// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/resample.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/resample.hpp"
#include "fourfold/nn/layer.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

namespace {

/// What both directions need, as the graph keeps it. The sizes are those of the small images.
struct Resampling {
  const Mesh* mesh;
  std::int64_t height;
  std::int64_t width;
  double factor;
  std::string_view layer;

  Tensor spread(const char* name, const Tensor& small) const {
    const LayerScope scope(layer);
    Tensor large = at::empty({4 * small.size(0), small.size(1)}, small.options());
    kernels::spread_pixels(small, height, width, factor, large);
    mesh->compute(name, tensor::loop_over({small, large}, 1));
    return large;
  }

  Tensor collect(const char* name, const Tensor& large) const {
    const LayerScope scope(layer);
    Tensor small = at::empty({large.size(0) / 4, large.size(1)}, large.options());
    kernels::collect_pixels(large, height, width, factor, small);
    mesh->compute(name, tensor::loop_over({large, small}, 1));
    return small;
  }
};

}  // namespace

Tensor enlarge(const Mesh& mesh, const Tensor& rows, std::int64_t height, std::int64_t width,
               std::string_view layer) {
  const Resampling resampling{&mesh, height, width, 1, layer};
  return node(
      layer, {rows},
      [&](const variable_list& in) -> variable_list {
        return {resampling.spread("enlarge", in[0])};
      },
      [resampling](const variable_list& gradients) -> variable_list {
        return {resampling.collect("enlarge dI", gradients[0].contiguous())};
      })[0];
}

Tensor shrink(const Mesh& mesh, const Tensor& rows, std::int64_t height, std::int64_t width,
              std::string_view layer) {
  FOURFOLD_CHECK(height % 2 == 0 && width % 2 == 0, "images of ", height, "x", width,
                 " pixels cannot be shrunk to a half");
  const Resampling resampling{&mesh, height / 2, width / 2, 0.25, layer};
  return node(
      layer, {rows},
      [&](const variable_list& in) -> variable_list {
        return {resampling.collect("shrink", in[0])};
      },
      [resampling](const variable_list& gradients) -> variable_list {
        return {resampling.spread("shrink dI", gradients[0].contiguous())};
      })[0];
}

}  // namespace fourfold::nn
