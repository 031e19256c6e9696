// A linear layer of small matrices: every rank has the whole input, and makes some of the outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/linear.hpp"

namespace fourfold::nn {

struct GatheredLinearSpec {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;
  /// Outputs are split over y and then x, instead of the reverse.
  bool transposed = false;
  /// What becomes of the outputs of the ranks along x and y.
  enum class Output {
    kSplit,   ///< each rank keeps its own
    kCopies,  ///< they are gathered along the second of the axes, and their use there counts once
    kEach,    ///< they are gathered along both axes, and each rank uses them in its own way
  } output = Output::kSplit;
  bool silu = false;           ///< whether SiLU follows
  bool input_gradient = true;  ///< false where the input is data
  double deviation = 0;        ///< of the initial weights
};

/// The rows of the weight are split over (x, y) or (y, x), and then over z. The input is the same
/// on all ranks along x and y. Its gradient is that of this rank's outputs alone: a summand over x
/// and y, which is left to whoever made the input (docs/gradients.md, each).
class GatheredLinear final : public Layer {
 public:
  /// Why such a layer cannot be split over a grid; empty if it can.
  static std::string misfit(const GatheredLinearSpec& spec, const grid::Sizes& sizes);

  /// Throws ConfigError when the sizes do not divide.
  GatheredLinear(const Mesh& mesh, const GatheredLinearSpec& spec, const Precision& precision,
                 std::uint64_t seed);

  /// Differentiable. The input has a row for each sample. The pass must have gathered the bias.
  Flow<Tensor> flow(Tensor input, const Pass& pass) const;

  double flops(const Batch& batch) const override;

  const GatheredLinearSpec& spec() const { return spec_; }
  const ParameterPtr& weight() const { return weight_; }
  const ParameterPtr& bias() const { return bias_; }

 private:
  struct Call;

  grid::Axes gathered_axes() const;
  Tensor multiply(Call& call, const Tensor& input) const;
  tensor::Pending reduce(const Tensor& gradient) const;
  variable_list backward_products(Call& call) const;

  GatheredLinearSpec spec_;
  grid::Axes kept_;
  ParameterPtr weight_;
  ParameterPtr bias_;
};

}  // namespace fourfold::nn
