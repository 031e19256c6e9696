// The 4-D convolution of images. The 4-D linear layer is the case of one pixel in a window.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/kernels/conv.hpp"
#include "fourfold/nn/linear.hpp"

namespace fourfold::nn {

/// A convolution of one input.
struct ConvTerm {
  std::string name;     ///< of its weight
  std::int64_t in = 0;  ///< channels of its input
  kernels::ConvShape shape;
  double deviation = 0;   ///< of the initial weights
  std::string bias = {};  ///< the name of a bias of its own, beside that of the sum
};

/// A sum of convolutions that have the same output: one of several parts of an input that lie side
/// by side, or one beside the skip of a block. The output is reduced once.
struct ConvSpec {
  std::string name;
  std::vector<ConvTerm> terms;
  std::int64_t out = 0;
  bool transposed = false;  ///< contracts over y and produces over x, instead of the reverse
  Spread input = Spread::kColumns;   ///< kColumns or kCopies
  Spread output = Spread::kColumns;  ///< the same
  bool bias = true;
};

/// Images are rows × channels (kernels/conv.hpp), and their rows are split over data and z: a rank
/// has whole images. Let c be the axis that a layer contracts over and p the axis that it produces
/// over. The channels of an input are split over c, and then over p where they are spread by
/// columns; those of the output over p, and then over c. A weight (out × taps × in) is split over p
/// and then z along its rows, and over c along its input channels.
class Conv final : public Layer {
 public:
  /// Why such a layer cannot be split over a grid; empty if it can.
  static std::string misfit(const ConvSpec& spec, const grid::Sizes& sizes);

  /// Throws ConfigError when the sizes do not divide.
  Conv(const Mesh& mesh, const ConvSpec& spec, const Precision& precision, std::uint64_t seed);

  /// Differentiable: one input for each term. The pass must have gathered the biases that the layer
  /// has.
  Flow<Tensor> flow(std::vector<Tensor> inputs, const Pass& pass) const;

  double flops(const Batch& batch) const override;

  const ConvSpec& spec() const { return spec_; }
  const Parameters& weights_of_terms() const { return weights_; }
  const ParameterPtr& bias() const { return bias_; }  ///< null if the layer has none
  const Parameters& biases_of_terms() const { return term_biases_; }

 private:
  struct Call;

  ParameterPtr declare_bias(const std::string& name, const Precision& precision,
                            std::uint64_t seed);
  /// The sum of all biases; undefined if there is none.
  Tensor bias_of(const Pass& pass) const;

  bool gathers_input() const;
  tensor::Pending gather_input(const Tensor& input) const;
  tensor::Pending reduce_output(const Tensor& partial) const;
  tensor::Pending gather_output_gradient(const Tensor& gradient) const;
  tensor::Pending reduce_input_gradient(const Tensor& partial) const;

  void add_term(Tensor& out, const ConvTerm& term, const Tensor& stacked,
                const Tensor& weight) const;
  Tensor multiply(Call& call) const;
  Tensor input_gradient(const ConvTerm& term, const Tensor& gradient, const Tensor& weight) const;
  void weight_gradient(Call& call, std::size_t term, const Tensor& gradient) const;
  void backward_products(Call& call) const;

  ConvSpec spec_;
  grid::Axis contract_;
  grid::Axis produce_;
  std::int64_t input_chunks_;
  std::int64_t output_chunks_;
  Parameters weights_;
  ParameterPtr bias_;
  Parameters term_biases_;
};

}  // namespace fourfold::nn
