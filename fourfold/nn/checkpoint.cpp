// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/checkpoint.hpp"

#include "fourfold/comm/phase_scope.hpp"
#include "fourfold/tensor/node.hpp"

namespace fourfold::nn {

using tensor::Saved;
using tensor::variable_list;

namespace {

/// The block within the backward pass.
variable_list again(const BlockFunction& block, const variable_list& inputs) {
  const comm::PhaseScope phase(schedule::Phase::kRecompute);
  return block(inputs);
}

/// Computes the block again, this time with a graph, and returns the gradients of its inputs.
variable_list backward(const BlockFunction& block, const std::vector<Saved>& saved,
                       const variable_list& gradients) {
  variable_list inputs;
  for (const Saved& one : saved) {
    const at::Tensor& input = one.get();
    inputs.push_back(input.detach().set_requires_grad(input.is_floating_point()));
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
  return result;
}

}  // namespace

std::vector<at::Tensor> checkpoint(const BlockFunction& block,
                                   const std::vector<at::Tensor>& inputs) {
  std::vector<Saved> saved;
  for (const at::Tensor& input : inputs) saved.emplace_back(input);
  return tensor::node(inputs, block,
                      [block, saved = std::move(saved)](const variable_list& gradients) {
                        return backward(block, saved, gradients);
                      });
}

}  // namespace fourfold::nn
