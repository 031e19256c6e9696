// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/squared_error.hpp"

#include <ATen/ops/zeros_like.h>

#include "fourfold/base/check.hpp"
#include "fourfold/nn/layer.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

Tensor squared_error(const Mesh& mesh, const Tensor& prediction, Tensor target,
                     std::int64_t terms) {
  FOURFOLD_CHECK_EQ(prediction.size(0), target.size(0), "rows of the target");
  const std::int64_t columns = target.size(1);
  FOURFOLD_CHECK(columns <= prediction.size(1), "more columns in the target");
  const double weight = 1.0 / static_cast<double>(terms);
  // The errors take the place of the target, and later the gradient that of the errors.
  return node(
      "loss", {prediction},
      [&](const variable_list& in) -> variable_list {
        target.sub_(in[0].detach().narrow(1, 0, columns));
        const Tensor sum = target.square().sum().mul_(weight);
        mesh.compute("loss", tensor::loop_over(target, 5, 3));
        return {sum};
      },
      [&mesh, target, weight,
       like = prediction.detach()](const variable_list& gradients) mutable -> variable_list {
        target.mul_(gradients[0].mul(-2 * weight));
        mesh.compute("loss dI", tensor::loop_over(target, 2, 1));
        if (target.sizes() == like.sizes() && target.scalar_type() == like.scalar_type()) {
          return {target};
        }
        Tensor result = at::zeros_like(like);
        result.narrow(1, 0, target.size(1)).copy_(target);
        mesh.compute("loss dI", tensor::loop_over(result, 2));
        return {result};
      })[0];
}

}  // namespace fourfold::nn
