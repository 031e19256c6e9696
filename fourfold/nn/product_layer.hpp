// A linear layer, O = I·Wᵀ + b, independent of the kind of its product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/base/check.hpp"
#include "fourfold/nn/flow.hpp"
#include "fourfold/nn/layer.hpp"
#include "fourfold/nn/pass.hpp"

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

class ProductLayer : public Layer {
 public:
  /// Differentiable. The pass must have gathered the bias, if the layer has one. The gradient of
  /// the weight is added to the parameter.
  virtual Flow<Tensor> flow(Tensor input, const Pass& pass) const = 0;
  Tensor forward(const Tensor& input, const Pass& pass) const { return run(flow(input, pass)); }

  double flops(const Batch& batch) const override;

  const LinearSpec& spec() const { return spec_; }
  const ParameterPtr& weight() const { return weight_; }
  const ParameterPtr& bias() const { return bias_; }  ///< null if the layer has none

 protected:
  ProductLayer(const Mesh& mesh, LinearSpec spec)
      : Layer(mesh, spec.name), spec_(std::move(spec)) {}

  LinearSpec spec_;
  ParameterPtr weight_;
  ParameterPtr bias_;
};

}  // namespace fourfold::nn
