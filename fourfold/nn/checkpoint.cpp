// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/checkpoint.hpp"

#include <utility>

#include "fourfold/comm/phase_scope.hpp"
#include "fourfold/nn/function.hpp"

namespace fourfold::nn {

namespace {

/// The block within the backward pass.
variable_list again(const BlockFunction& block, const variable_list& inputs) {
  const comm::PhaseScope phase(schedule::Phase::kRecompute);
  return block(inputs);
}

class Checkpoint : public torch::autograd::Function<Checkpoint> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const BlockFunction& block) {
    keep(context, block);
    context->save_for_backward(inputs.vec());
    const at::NoGradGuard no_graph;
    return block(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& block = kept<BlockFunction>(context);
    variable_list inputs;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.detach().set_requires_grad(saved.is_floating_point()));
    }
    {
      const at::AutoGradMode graph(true);
      const variable_list outputs = again(block, inputs);
      torch::autograd::backward(outputs, gradients);
    }
    variable_list result;
    for (const at::Tensor& input : inputs) {
      result.push_back(input.is_floating_point() ? input.grad() : at::Tensor());
    }
    result.emplace_back();
    return result;
  }
};

}  // namespace

std::vector<at::Tensor> checkpoint(const BlockFunction& block,
                                   const std::vector<at::Tensor>& inputs) {
  return Checkpoint::apply(at::TensorList(inputs), block);
}

}  // namespace fourfold::nn
