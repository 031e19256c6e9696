// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/elementwise.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/gelu.hpp"
#include "fourfold/kernels/swiglu.hpp"
#include "fourfold/nn/function.hpp"

namespace fourfold::nn {

namespace {

void record(const Mesh& mesh, const char* name, std::string_view layer, const Tensor& tensor,
            double flops, int tensors) {
  const LayerScope scope(layer);
  mesh.compute(name, flops * static_cast<double>(tensor.numel()),
               tensors * static_cast<std::int64_t>(tensor.nbytes()));
}

class Gelu : public torch::autograd::Function<Gelu> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Mesh* mesh,
                        std::string_view layer) {
    remember(context, *mesh);
    keep(context, layer);
    context->save_for_backward({input});
    Tensor out = at::empty_like(input);
    kernels::gelu_forward(input, out);
    record(*mesh, "gelu", layer, input, 10, 2);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor input = context->get_saved_variables()[0];
    Tensor result = at::empty_like(input);
    kernels::gelu_backward(gradients[0].contiguous(), input, result);
    record(remembered<Mesh>(context), "gelu dI", kept<std::string_view>(context), input, 20, 3);
    return {result, Tensor(), Tensor()};
  }
};

class Swiglu : public torch::autograd::Function<Swiglu> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Mesh* mesh,
                        std::string_view layer) {
    remember(context, *mesh);
    keep(context, layer);
    context->save_for_backward({input});
    Tensor out = at::empty({input.size(0), input.size(1) / 2}, input.options());
    kernels::swiglu_forward(input, out);
    record(*mesh, "swiglu", layer, out, 6, 3);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor input = context->get_saved_variables()[0];
    Tensor result = at::empty_like(input);
    const Tensor gradient = gradients[0].contiguous();
    kernels::swiglu_backward(gradient, input, result);
    record(remembered<Mesh>(context), "swiglu dI", kept<std::string_view>(context), gradient, 12,
           5);
    return {result, Tensor(), Tensor()};
  }
};

/// What is needed to draw a mask again, as the graph keeps it.
struct Mask {
  double p;
  kernels::Key key;
  kernels::Window2 window;
  std::string_view layer;
};

Tensor masked(const Mesh& mesh, const char* name, const Tensor& input, const Mask& mask) {
  Tensor result = at::empty_like(input);
  kernels::apply_dropout(input, result, mask.window, mask.key, mask.p);
  record(mesh, name, mask.layer, input, 1, 2);
  return result;
}

class Dropout : public torch::autograd::Function<Dropout> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Mesh* mesh,
                        const Mask& mask) {
    remember(context, *mesh);
    keep(context, mask);
    return masked(*mesh, "dropout", input, mask);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Mask& mask = kept<Mask>(context);
    const Tensor gradient = gradients[0].contiguous();
    return {masked(remembered<Mesh>(context), "dropout dI", gradient, mask), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor gelu(const Mesh& mesh, const Tensor& input, std::string_view layer) {
  return Gelu::apply(input, &mesh, layer);
}

Tensor swiglu(const Mesh& mesh, const Tensor& input, std::string_view layer) {
  FOURFOLD_CHECK_EQ(input.size(1) % 2, 0, "columns of gate and up");
  return Swiglu::apply(input, &mesh, layer);
}

Tensor residual(const Mesh& mesh, const Tensor& a, const Tensor& b, std::string_view layer) {
  Tensor sum = at::add(a, b);
  record(mesh, "residual", layer, a, 1, 3);
  return sum;
}

Tensor dropout(const Mesh& mesh, const Tensor& input, double p, kernels::Key key,
               const kernels::Window2& window, std::string_view layer) {
  FOURFOLD_CHECK(p >= 0 && p < 1, "dropout of ", p);
  if (p == 0) return input;
  return Dropout::apply(input, &mesh, Mask{p, key, window, layer});
}

}  // namespace fourfold::nn
