// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/elementwise.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/gelu.hpp"
#include "fourfold/kernels/silu.hpp"
#include "fourfold/kernels/swiglu.hpp"
#include "fourfold/nn/layer.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

namespace {

void record(const Mesh& mesh, const char* name, std::string_view layer, const Tensor& tensor,
            double flops, int tensors) {
  const LayerScope scope(layer);
  mesh.compute(name, tensor::loop_over(tensor, tensors, flops));
}

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

}  // namespace

Tensor gelu(const Mesh& mesh, const Tensor& input, std::string_view layer) {
  return node(
      layer, {input},
      [&](const variable_list& in) -> variable_list {
        Tensor out = at::empty_like(in[0]);
        kernels::gelu_forward(in[0], out);
        record(mesh, "gelu", layer, out, 10, 2);
        return {out};
      },
      [&mesh, layer, saved = Saved(input)](const variable_list& gradients) -> variable_list {
        Tensor result = at::empty_like(saved.get());
        kernels::gelu_backward(gradients[0].contiguous(), saved.get(), result);
        record(mesh, "gelu dI", layer, result, 20, 3);
        return {result};
      })[0];
}

Tensor silu(const Mesh& mesh, const Tensor& input, std::string_view layer) {
  return node(
      layer, {input},
      [&](const variable_list& in) -> variable_list {
        Tensor out = at::empty_like(in[0]);
        kernels::silu_forward(in[0], out);
        record(mesh, "silu", layer, out, 6, 2);
        return {out};
      },
      [&mesh, layer, saved = Saved(input)](const variable_list& gradients) -> variable_list {
        Tensor result = at::empty_like(saved.get());
        kernels::silu_backward(gradients[0].contiguous(), saved.get(), result);
        record(mesh, "silu dI", layer, result, 10, 3);
        return {result};
      })[0];
}

Tensor swiglu(const Mesh& mesh, const Tensor& input, std::string_view layer) {
  FOURFOLD_CHECK_EQ(input.size(1) % 2, 0, "columns of gate and up");
  return node(
      layer, {input},
      [&](const variable_list& in) -> variable_list {
        Tensor out = at::empty({input.size(0), input.size(1) / 2}, input.options());
        kernels::swiglu_forward(in[0], out);
        record(mesh, "swiglu", layer, out, 6, 3);
        return {out};
      },
      [&mesh, layer, saved = Saved(input)](const variable_list& gradients) -> variable_list {
        Tensor result = at::empty_like(saved.get());
        const Tensor gradient = gradients[0].contiguous();
        kernels::swiglu_backward(gradient, saved.get(), result);
        record(mesh, "swiglu dI", layer, gradient, 12, 5);
        return {result};
      })[0];
}

Tensor residual(const Mesh& mesh, const Tensor& a, const Tensor& b, std::string_view layer) {
  return node(
      layer, {a, b},
      [&](const variable_list& in) -> variable_list {
        Tensor sum = at::add(in[0], in[1]);
        record(mesh, "residual", layer, sum, 1, 3);
        return {sum};
      },
      [&mesh, layer](const variable_list& gradients) -> variable_list {
        // libtorch will add the gradient of one of the inputs to that of its other use.
        record(mesh, "residual dI", layer, gradients[0], 1, 3);
        return {gradients[0], gradients[0]};
      })[0];
}

Tensor dropout(const Mesh& mesh, const Tensor& input, double p, kernels::Key key,
               const kernels::Window2& window, std::string_view layer) {
  FOURFOLD_CHECK(p >= 0 && p < 1, "dropout of ", p);
  if (p == 0) return input;
  const Mask mask{p, key, window, layer};
  return node(
      mask.layer, {input},
      [&](const variable_list& in) -> variable_list {
        return {masked(mesh, "dropout", in[0], mask)};
      },
      [&mesh, mask](const variable_list& gradients) -> variable_list {
        return {masked(mesh, "dropout dI", gradients[0].contiguous(), mask)};
      })[0];
}

}  // namespace fourfold::nn
