// The 4-D linear layer: O = I·Wᵀ + b with every matrix split over the grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/product_layer.hpp"

namespace fourfold::nn {

/// How the rows of activations are kept between layers: split over all axes, or replicated along
/// the axis that does not split their columns (docs/glossary.md; docs/gradients.md has a table of
/// every point of a block).
enum class Activations { kSharded, kReplicated };

/// Let c be the axis that a layer contracts over and p the axis that it produces over. The columns
/// of the input are split over c, and `input` says how it is spread over p. The columns of the
/// output are split over p, and `output` says how it is spread over c. The weight (out × in) is
/// split over p and then z along its rows, and over c along its columns.
class Linear final : public ProductLayer {
 public:
  /// Why such a layer cannot be split over a grid; empty if it can.
  static std::string misfit(const LinearSpec& spec, const grid::Sizes& sizes);

  /// Throws ConfigError when the sizes do not divide.
  Linear(const Mesh& mesh, const LinearSpec& spec, const Precision& precision, std::uint64_t seed);

  Flow<Tensor> flow(Tensor input, const Pass& pass) const override;

 private:
  struct Call;

  /// Whether gathering the input needs communication.
  bool gathers_input() const;
  tensor::Pending gather_input(const Tensor& input) const;
  tensor::Pending gather_output_gradient(const Tensor& gradient) const;
  tensor::Pending reduce_output(const Tensor& partial) const;
  tensor::Pending reduce_input_gradient(const Tensor& partial) const;

  Tensor multiply(const Tensor& input, const Tensor& weight, const Tensor& bias) const;
  Tensor input_gradient(const Tensor& gradient, const Tensor& weight) const;
  void weight_gradient(const Tensor& gradient, const Tensor& input, Parameter::Use& use) const;
  void backward_products(Call& call) const;

  grid::Axis contract_;
  grid::Axis produce_;
  std::int64_t input_chunks_;   // pieces of the input's columns, one below the other
  std::int64_t output_chunks_;  // the same for the output
};

}  // namespace fourfold::nn
