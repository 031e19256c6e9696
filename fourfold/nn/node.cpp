// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/node.hpp"

namespace fourfold::nn {

namespace {

class Node : public torch::autograd::Function<Node> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const NodeFunction& forward, const NodeFunction& backward) {
    keep(context, backward);
    return forward(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    variable_list result = kept<NodeFunction>(context)(gradients);
    result.resize(result.size() + 2);  // the two functions have no gradients
    return result;
  }
};

}  // namespace

variable_list node(const variable_list& inputs, const NodeFunction& forward,
                   const NodeFunction& backward) {
  return Node::apply(at::TensorList(inputs), forward, backward);
}

}  // namespace fourfold::nn
