// A linear layer, O = I·Wᵀ + b, independent of the algorithm of its product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/base/check.hpp"
#include "fourfold/nn/flow.hpp"
#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

/// During a product of the 4-D algorithm, an input or output is whole along one axis. This says how
/// it is spread over that axis outside of the product. docs/gradients.md has a table of where a GPT
/// uses which of these, and which rows and columns a rank then has.
enum class Spread {
  kRows,     ///< each rank has some of the rows
  kColumns,  ///< each rank has some of the columns
  kCopies,   ///< each rank has all of it
};

struct LinearSpec {
  std::string name;
  std::int64_t in = 0;
  std::int64_t out = 0;
  // Only for the 4-D algorithm, since with SUMMA input and output have one layout.
  bool transposed = false;  ///< contracts over y and produces over x, instead of the reverse
  Spread input = Spread::kRows;
  Spread output = Spread::kRows;
  bool bias = true;
  double deviation = 0.02;  ///< of the initial weights
};

class ProductLayer {
 public:
  ProductLayer(const ProductLayer&) = delete;
  ProductLayer& operator=(const ProductLayer&) = delete;
  virtual ~ProductLayer() = default;

  /// `bias` is the gathered vector of this layer (vectors.hpp), undefined if the layer has none.
  /// Differentiable in both arguments. The gradient of the weight is added to the parameter.
  virtual Flow<Tensor> flow(Tensor input, Tensor bias) const = 0;
  Tensor forward(const Tensor& input, const Tensor& bias) const { return run(flow(input, bias)); }

  const LinearSpec& spec() const { return spec_; }
  const ParameterPtr& weight() const { return weight_; }
  const ParameterPtr& bias() const { return bias_; }  ///< null if the layer has none
  Parameters parameters() const {
    Parameters all = {weight_};
    if (bias_) all.push_back(bias_);
    return all;
  }

 protected:
  explicit ProductLayer(LinearSpec spec) : spec_(std::move(spec)) {}

  /// Throws InvariantError unless it is this layer's as gathered: one of another size might be
  /// spread over the columns without a word.
  void check_bias(const Tensor& bias) const {
    const std::int64_t expected = bias_ ? bias_->rows() : 0;
    const std::int64_t found = bias.defined() ? bias.numel() : 0;
    if (found == expected) return;
    throw InvariantError(concat(spec_.name, ": a bias of ", found, " elements instead of the ",
                                expected, " that Vectors::gather gives"));
  }

  LinearSpec spec_;
  ParameterPtr weight_;
  ParameterPtr bias_;
};

}  // namespace fourfold::nn
