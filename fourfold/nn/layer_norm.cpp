// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/layer_norm.hpp"

#include "fourfold/kernels/norm.hpp"

namespace fourfold::nn {

using grid::Axis;

LayerNorm::LayerNorm(const Mesh& mesh, const std::string& name, std::int64_t width,
                     Activations activations, const Precision& precision, std::uint64_t seed,
                     double epsilon)
    : Norm(mesh, name,
           {.shift = true,
            .statistics = 2,
            .flops = {.statistics = 3,
                      .apply = 4,
                      .backward_sums = 9,
                      .backward_apply = 7,
                      .whole = 4,
                      .backward_whole = 16}},
           width, epsilon, activations, precision, seed) {}

void LayerNorm::whole(const Tensor& input, const variable_list& vectors, Tensor& statistics,
                      Tensor& out) const {
  kernels::norm_whole(input, vectors[0], vectors[1], epsilon(), statistics, out);
}

void LayerNorm::backward_whole(const Tensor& upstream, const Rows& rows, variable_list& gradients,
                               Tensor& result) const {
  kernels::norm_backward_whole(upstream, rows.input, rows.statistics, rows.scale, gradients[0],
                               gradients[1], result);
}

/// The mean of this rank's columns, and their squared distances from it.
void LayerNorm::statistics(const Tensor& input, Tensor& own) const {
  kernels::norm_statistics(input, own);
}

tensor::Pending LayerNorm::exchange(const Tensor& own) const {
  return tensor::all_gather(mesh_->comm(Axis::kX), own);
}

/// Merges the statistics of all ranks. Merging adds the squared distances of the means, and never
/// subtracts large squares.
void LayerNorm::apply(const Tensor& input, const Tensor& arrived, const variable_list& vectors,
                      Tensor& statistics, Tensor& out) const {
  const Tensor all = arrived.view({mesh_->size(Axis::kX), 2, input.size(0)});
  const Tensor means = all.select(1, 0);
  const Tensor mean = means.mean(0);
  Tensor squares = all.select(1, 1).sum(0);
  squares.add_(at::sub(means, mean).square_().sum(0), static_cast<double>(input.size(1)));
  statistics[0].copy_(mean);
  statistics[1].copy_(squares).div_(static_cast<double>(width())).add_(epsilon()).rsqrt_();
  kernels::norm_apply(input, statistics[0], statistics[1], vectors[0], vectors[1], out);
}

void LayerNorm::backward_sums(const Tensor& upstream, const Rows& rows, Tensor& sums,
                              variable_list& gradients) const {
  kernels::norm_backward_sums(upstream, rows.input, rows.statistics[0], rows.statistics[1],
                              rows.scale, sums, gradients[0], gradients[1]);
}

void LayerNorm::backward_apply(const Tensor& upstream, const Rows& rows, const Tensor& sums,
                               Tensor& result) const {
  kernels::norm_backward_apply(upstream, rows.input, rows.statistics[0], rows.statistics[1],
                               rows.scale, sums, width(), result);
}

}  // namespace fourfold::nn
