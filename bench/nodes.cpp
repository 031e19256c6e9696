// The time of a node of the graph as the library makes it, against libtorch's own way to make one
// (torch::autograd::Function). A chain of nodes of tiny tensors that compute nothing; the two take
// turns, and the best of all turns counts.
//   nodes [turns]
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fourfold/base/units.hpp"
#include "fourfold/tensor/node.hpp"

namespace {

using at::Tensor;
using fourfold::Seconds;
using fourfold::tensor::Saved;
using fourfold::tensor::variable_list;
using torch::autograd::AutogradContext;

constexpr int kNodes = 1000;

// --- nodes whose backward function needs nothing

Tensor our_plain(const Tensor& input) {
  return fourfold::tensor::node(
      {input}, [](const variable_list& in) -> variable_list { return {at::empty_like(in[0])}; },
      [](const variable_list& gradients) -> variable_list { return {gradients[0]}; })[0];
}

class PlainFunction : public torch::autograd::Function<PlainFunction> {
 public:
  static Tensor forward(AutogradContext*, const Tensor& input) { return at::empty_like(input); }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0]};
  }
};

// --- nodes whose backward function needs the input and two numbers

Tensor our_saving(const Tensor& input) {
  return fourfold::tensor::node(
      {input}, [](const variable_list& in) -> variable_list { return {at::empty_like(in[0])}; },
      [saved = Saved(input), size = std::int64_t{1},
       factor = 2.0](const variable_list& gradients) -> variable_list {
        if (saved.get().size(0) != size || factor != 2.0) std::abort();
        return {gradients[0]};
      })[0];
}

class SavingFunction : public torch::autograd::Function<SavingFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, std::int64_t size,
                        double factor) {
    context->save_for_backward({input});
    context->saved_data["size"] = size;
    context->saved_data["factor"] = factor;
    return at::empty_like(input);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const bool right = saved[0].size(0) == context->saved_data["size"].toInt() &&
                       context->saved_data["factor"].toDouble() == 2.0;
    if (!right) std::abort();
    return {gradients[0], Tensor(), Tensor()};
  }
};

// --- measuring

/// The shortest times so far of a node, in seconds.
struct Best {
  double forward = 1;
  double backward = 1;

  template <class Node>
  void run(const Node& node) {
    const Tensor leaf = at::ones({1}).set_requires_grad(true);
    const Tensor gradient = at::ones({1});
    const Seconds begin = fourfold::now();
    Tensor out = leaf;
    for (int i = 0; i < kNodes; ++i) out = node(out);
    const Seconds half = fourfold::now();
    out.backward(gradient);
    out = Tensor();
    const Seconds end = fourfold::now();
    forward = std::min(forward, (half - begin).value() / kNodes);
    backward = std::min(backward, (end - half).value() / kNodes);
  }
};

template <class Ours, class Theirs>
void compare(const char* name, int turns, const Ours& ours, const Theirs& theirs) {
  Best our_best;
  Best their_best;
  for (int turn = 0; turn < turns; ++turn) {
    our_best.run(ours);
    their_best.run(theirs);
  }
  const auto show = [&](const char* what, double a, double b) {
    std::printf("%-27s %-8s ours %7.0f ns  libtorch %7.0f ns  ratio %.2f\n", name, what, a * 1e9,
                b * 1e9, a / b);
  };
  show("forward", our_best.forward, their_best.forward);
  show("backward", our_best.backward, their_best.backward);
  show("both", our_best.forward + our_best.backward, their_best.forward + their_best.backward);
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const int turns = argc > 1 ? std::atoi(argv[1]) : 300;
  compare("a node", turns, our_plain,
          [](const Tensor& input) { return PlainFunction::apply(input); });
  compare("a node that keeps its input", turns, our_saving,
          [](const Tensor& input) { return SavingFunction::apply(input, std::int64_t{1}, 2.0); });
}
