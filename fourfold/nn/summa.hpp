// SUMMA: a product on a square of ranks, in steps. In each step the blocks of one column of ranks
// and of one row of ranks are sent to all ranks that need them, and multiplied. docs/summa.md has
// pictures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/product_layer.hpp"
#include "fourfold/tensor/panels.hpp"

namespace fourfold::nn {

/// Why the ranks of a grid do not form a square; empty if they do.
std::string square_misfit(const grid::Sizes& sizes);
/// Throws ConfigError unless x and y have equal sizes.
void check_square(const Mesh& mesh);

/// The spec of a weight for SUMMA. Its rows (out) are split over x, its columns (in) over y, and
/// all ranks along z have the same.
ParameterSpec summa_weight(const Mesh& mesh, const std::string& name, const grid::Shape& shape,
                           double deviation);

/// Computes I·Wᵀ + b and its gradients. For input and output alike, rows are split over (data, z,
/// y) and columns over x.
class SummaProduct {
 public:
  /// The names of the product and of the products for the gradients, in the schedule.
  struct Names {
    const char* forward;
    const char* input_gradient;
    const char* weight_gradient;
  };

  /// The ranks must form a square.
  SummaProduct(const Mesh& mesh, ParameterPtr weight, const Names& names);

  /// `bias` is undefined if there is none. Differentiable in both arguments.
  Flow<Tensor> flow(Tensor input, Tensor bias, const Pass& pass) const;

 private:
  struct Call;

  bool ahead() const { return mesh_->overlap().panels; }
  tensor::Panels input_panels(const Tensor& input) const;
  tensor::Panels weight_panels() const;

  Tensor multiply(Call& call) const;
  void multiply_for_input(Call& call, const Tensor& gradient, tensor::Panels weights,
                          tensor::Panels& inputs) const;
  void multiply_for_weight(Call& call, const Tensor& gradient, tensor::Panels inputs) const;
  variable_list backward(Call& call, const Tensor& gradient) const;

  const Mesh* mesh_;
  ParameterPtr weight_;
  Names names_;
  int steps_;  // the number of ranks along x, and along y
};

/// A linear layer by SUMMA.
class SummaLinear final : public ProductLayer {
 public:
  /// Why such a layer cannot be split over a grid; empty if it can.
  static std::string misfit(const LinearSpec& spec, const grid::Sizes& sizes);

  /// Throws ConfigError when the ranks do not form a square, or when the sizes do not divide.
  SummaLinear(const Mesh& mesh, const LinearSpec& spec, const Precision& precision,
              std::uint64_t seed);

  Flow<Tensor> flow(Tensor input, const Pass& pass) const override;

 private:
  std::unique_ptr<SummaProduct> product_;
};

}  // namespace fourfold::nn
