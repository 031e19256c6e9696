// Who takes the gradients of parameters: an optimizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fourfold::nn {

class Parameter;

class GradientSink {
 public:
  GradientSink() = default;
  GradientSink(const GradientSink&) = delete;
  GradientSink& operator=(const GradientSink&) = delete;

  /// Called when a backward pass has completed the gradient of the parameter: every use of the pass
  /// is part of it, summed over the ranks of `ParameterSpec::summed`. `last` says whether the pass
  /// is the last of its step.
  virtual void complete(Parameter& parameter, bool last) = 0;
  /// Called when a gradient arrives that has no memory. May give the parameter memory
  /// (`Parameter::move_gradient_to`); otherwise the parameter allocates its own.
  virtual void provide_memory(Parameter& parameter) = 0;

 protected:
  ~GradientSink() = default;
};

}  // namespace fourfold::nn
