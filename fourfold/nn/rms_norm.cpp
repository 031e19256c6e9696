// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/rms_norm.hpp"

#include "fourfold/kernels/norm.hpp"

namespace fourfold::nn {

using grid::Axis;

RmsNorm::RmsNorm(const Mesh& mesh, const std::string& name, std::int64_t width,
                 Activations activations, const Precision& precision, std::uint64_t seed,
                 double epsilon)
    : Norm(mesh, name,
           {.shift = false,
            .statistics = 1,
            .flops = {.statistics = 2,
                      .apply = 2,
                      .backward_sums = 6,
                      .backward_apply = 5,
                      .whole = 4,
                      .backward_whole = 10}},
           width, epsilon, activations, precision, seed) {}

void RmsNorm::whole(const Tensor& input, const variable_list& vectors, Tensor& statistics,
                    Tensor& out) const {
  kernels::rms_whole(input, vectors[0], epsilon(), statistics, out);
}

void RmsNorm::backward_whole(const Tensor& upstream, const Rows& rows, variable_list& gradients,
                             Tensor& result) const {
  kernels::rms_backward_whole(upstream, rows.input, rows.statistics, rows.scale, gradients[0],
                              result);
}

/// The squares of this rank's columns.
void RmsNorm::statistics(const Tensor& input, Tensor& own) const {
  kernels::rms_statistics(input, own);
}

tensor::Pending RmsNorm::exchange(const Tensor& own) const {
  return tensor::all_reduce(mesh_->comm(Axis::kX), own);
}

void RmsNorm::apply(const Tensor& input, const Tensor& arrived, const variable_list& vectors,
                    Tensor& statistics, Tensor& out) const {
  kernels::rms_apply(input, arrived, width(), epsilon(), vectors[0], statistics, out);
}

void RmsNorm::backward_sums(const Tensor& upstream, const Rows& rows, Tensor& sums,
                            variable_list& gradients) const {
  kernels::rms_backward_sums(upstream, rows.input, rows.statistics, rows.scale, sums, gradients[0]);
}

void RmsNorm::backward_apply(const Tensor& upstream, const Rows& rows, const Tensor& sums,
                             Tensor& result) const {
  kernels::rms_backward_apply(upstream, rows.input, rows.statistics, rows.scale, sums, width(),
                              result);
}

}  // namespace fourfold::nn
