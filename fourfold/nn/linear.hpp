// The 4-D linear layer: O = I·Wᵀ + b with every matrix split over the grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/flow.hpp"
#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

/// How the rows of activations are kept between layers: split over all axes, or the same on all
/// ranks of the axis that does not split their columns (docs/glossary.md).
enum class Activations { kSharded, kReplicated };

/// How an input or output is spread over the axis that it is whole along during the product.
enum class Spread {
  kRows,     ///< each rank has some of the rows
  kColumns,  ///< each rank has some of the columns
  kCopies,   ///< each rank has all of it
};

struct LinearSpec {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool transposed = false;  ///< contracts over y and produces over x, instead of the reverse
  Spread input = Spread::kRows;
  Spread output = Spread::kRows;
  bool bias = true;
  double deviation = 0.02;  ///< of the initial weights
};

/// Let c be the axis that a layer contracts over and p the one that it produces over. The input
/// arrives with its columns split over c and spread over p by `input`; the output leaves with its
/// columns split over p and spread over c by `output`. The weight (out × in) is split by p and then
/// z along its rows and by c along its columns.
class Linear {
 public:
  /// Throws ConfigError when the sizes do not divide.
  Linear(const Mesh& mesh, const LinearSpec& spec, const Precision& precision, std::uint64_t seed);
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  /// `bias` is the vector of this layer as gathered (vectors.hpp), undefined if it has none.
  /// Differentiable in both; the weight's gradient is added to the parameter.
  Flow<Tensor> flow(Tensor input, Tensor bias) const;
  Tensor forward(const Tensor& input, const Tensor& bias) const { return run(flow(input, bias)); }

  const LinearSpec& spec() const { return spec_; }
  const ParameterPtr& weight() const { return weight_; }
  const ParameterPtr& bias() const { return bias_; }  ///< null if it has none
  Parameters parameters() const;

 private:
  struct Call;

  /// Whether that means to communicate.
  bool gathers_input() const;
  tensor::Pending gather_input(const Tensor& input) const;
  tensor::Pending gather_output_gradient(const Tensor& gradient) const;
  tensor::Pending reduce_output(const Tensor& partial) const;
  tensor::Pending reduce_input_gradient(const Tensor& partial) const;

  Tensor multiply(const Tensor& input, const Tensor& weight, const Tensor& bias) const;
  Tensor input_gradient(const Tensor& gradient, const Tensor& weight) const;
  void weight_gradient(const Tensor& gradient, const Tensor& input, Parameter::Use& use) const;
  void backward_products(Call& call) const;

  const Mesh* mesh_;
  LinearSpec spec_;
  grid::Axis contract_;
  grid::Axis produce_;
  std::int64_t input_chunks_;   // the input's columns come in so many pieces, one below the other
  std::int64_t output_chunks_;  // and so the output's
  ParameterPtr weight_;
  ParameterPtr bias_;
};

}  // namespace fourfold::nn
