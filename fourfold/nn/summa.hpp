// SUMMA: a product on a square of ranks, in steps. In each the blocks of one column of ranks and of
// one row of ranks are sent to all that need them, and multiplied. docs/summa.md has the pictures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/function.hpp"
#include "fourfold/nn/product_layer.hpp"
#include "fourfold/tensor/panels.hpp"

namespace fourfold::nn {

/// Throws ConfigError unless x and y are equal.
void check_square(const Mesh& mesh);

/// What a weight is that SUMMA multiplies with: its rows (out) are split over x, its columns (in)
/// over y, and along z all ranks have the same.
ParameterSpec summa_weight(const Mesh& mesh, const std::string& name, const grid::Shape& shape,
                           double deviation);

/// I·Wᵀ + b and its gradients. Activations have their rows split over (data, z, y) and their
/// columns over x, input and output alike.
class SummaProduct {
 public:
  /// What the schedule calls the product, and those for the gradients.
  struct Names {
    const char* forward;
    const char* input_gradient;
    const char* weight_gradient;
  };

  /// The ranks are a square.
  SummaProduct(const Mesh& mesh, ParameterPtr weight, const Names& names);

  /// As that of ProductLayer.
  Flow<Tensor> flow(Tensor input, Tensor bias) const;

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
  int steps_;  // ranks along x, and along y
};

/// A linear layer by SUMMA.
class SummaLinear final : public ProductLayer {
 public:
  /// Throws ConfigError when the ranks are no square, or the sizes do not divide.
  SummaLinear(const Mesh& mesh, const LinearSpec& spec, const Precision& precision,
              std::uint64_t seed);

  Flow<Tensor> flow(Tensor input, Tensor bias) const override;

 private:
  std::unique_ptr<SummaProduct> product_;
};

}  // namespace fourfold::nn
