// RMS norm over a hidden dimension that may be split.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/norm.hpp"

namespace fourfold::nn {

/// Divides each row by the root of its mean square, and multiplies its columns by a scale.
class RmsNorm final : public Norm {
 public:
  RmsNorm(const Mesh& mesh, const std::string& name, std::int64_t width, Activations activations,
          const Precision& precision, std::uint64_t seed, double epsilon = 1e-5);

 private:
  // The statistics of whole rows are [1/root of the mean square].
  void whole(const Tensor& input, const variable_list& vectors, Tensor& statistics,
             Tensor& out) const override;
  void backward_whole(const Tensor& upstream, const Rows& rows, variable_list& gradients,
                      Tensor& result) const override;
  void statistics(const Tensor& input, Tensor& own) const override;
  tensor::Pending exchange(const Tensor& own) const override;
  void apply(const Tensor& input, const Tensor& arrived, const variable_list& vectors,
             Tensor& statistics, Tensor& out) const override;
  void backward_sums(const Tensor& upstream, const Rows& rows, Tensor& sums,
                     variable_list& gradients) const override;
  void backward_apply(const Tensor& upstream, const Rows& rows, const Tensor& sums,
                      Tensor& result) const override;
};

}  // namespace fourfold::nn
