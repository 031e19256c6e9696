// Convolutions of rows against libtorch's own in double: all ways that depend on the type, on the
// number of rows and on the number of outputs.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/conv.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"

#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using kernels::ConvShape;
using kernels::Into;

std::vector<ConvShape> shapes() {
  const ConvShape three{.height = 6,
                        .width = 5,
                        .kernel_height = 3,
                        .kernel_width = 3,
                        .pad_height = 1,
                        .pad_width = 1};
  ConvShape strided = three;
  strided.stride = 2;
  ConvShape dilated = three;
  dilated.dilation = dilated.pad_height = dilated.pad_width = 2;
  ConvShape inside = three;
  inside.kernel_width = 5;
  inside.pad_height = inside.pad_width = 0;
  ConvShape far = three;  // windows that lie outside of the image
  far.pad_height = far.pad_width = 4;
  const ConvShape point{.height = 6, .width = 5};
  return {three, strided, dilated, inside, far, point};
}

Tensor picture(const Tensor& rows, std::int64_t height, std::int64_t width) {
  return rows.view({-1, height, width, rows.size(1)}).permute({0, 3, 1, 2});
}

double error(const Tensor& found, const Tensor& expected) {
  return ((found.to(at::kDouble) - expected).abs().max() / expected.abs().max()).item<double>();
}

/// The numbers of the type, in double.
Tensor some(const std::vector<std::int64_t>& sizes, at::ScalarType type) {
  return at::randn(sizes, at::kDouble).to(type).to(at::kDouble);
}

void check(const ConvShape& shape, std::int64_t samples, std::int64_t in, std::int64_t out,
           at::ScalarType type, double tolerance) {
  const Tensor input = some({samples * shape.pixels(), in}, type).set_requires_grad(true);
  const Tensor weight = some({out, shape.taps(), in}, type).set_requires_grad(true);
  const Tensor window =
      weight.view({out, shape.kernel_height, shape.kernel_width, in}).permute({0, 3, 1, 2});
  const Tensor expected =
      at::conv2d(picture(input, shape.height, shape.width), window, {}, shape.stride,
                 {shape.pad_height, shape.pad_width}, shape.dilation)
          .permute({0, 2, 3, 1})
          .reshape({-1, out});
  const Tensor upstream = some(expected.sizes().vec(), type);
  expected.backward(upstream);
  const Tensor x = input.detach().to(type);
  const Tensor w = weight.detach().to(type);
  const Tensor dy = upstream.to(type);
  EXPECT_LE(error(kernels::conv(x, w, shape), expected.detach()), tolerance);
  EXPECT_LE(error(kernels::conv_input_gradient(dy, w, shape), input.grad()), tolerance);
  Tensor dw = at::full(w.sizes(), 100, w.options());
  kernels::conv_weight_gradient(dw, dy, x, shape, Into::kNew);
  EXPECT_LE(error(dw, weight.grad()), tolerance);
  const auto master = type == at::kBFloat16 ? at::kFloat : type;
  Tensor sum = weight.grad().to(master, false, true);
  kernels::conv_weight_gradient(sum, dy, x, shape, Into::kSum);
  // libtorch's operations, which GPUs take, add in float without rounding to bf16 before.
  const bool in_float = takes_special_way(Choice::kKernels) && type == at::kBFloat16;
  EXPECT_LE(error(sum, 2 * weight.grad()), in_float ? 1e-6 : tolerance);
}

void check_all(at::ScalarType type, double tolerance) {
  at::manual_seed(3);
  const std::vector<ConvShape> all = shapes();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::int64_t samples : {1, 7}) {  // few rows, and more
      for (const std::int64_t in : {1, 3, 20}) {
        for (const std::int64_t out : {1, 3, 6, 24}) {
          SCOPED_TRACE(concat("window ", i, ", ", samples, " samples, ", in, " -> ", out));
          check(all[i], samples, in, out, type, tolerance);
        }
      }
    }
  }
}

TEST(ConvKernel, EqualsLibtorch) {
  check_all(at::kDouble, 1e-13);
  in_every_way(Choice::kVectors, [](int) { check_all(at::kFloat, 5e-6); });
}

TEST(ConvKernel, OfBf16EqualsLibtorch) {
  in_every_way(Choice::kBf16Products, [](int) { check_all(at::kBFloat16, 0.02); });
}

TEST(ConvKernel, OfMetaTensorsHasShapes) {
  const auto meta = at::TensorOptions(at::kFloat).device(at::kMeta);
  for (const std::int64_t out : {1, 24}) {
    const ConvShape shape = shapes()[1];
    const Tensor input = at::empty({2 * shape.pixels(), 5}, meta);
    Tensor weight = at::empty({out, 9, 5}, meta);
    const Tensor output = kernels::conv(input, weight, shape);
    EXPECT_EQ(output.sizes(), at::IntArrayRef({2 * shape.out_pixels(), out}));
    EXPECT_EQ(kernels::conv_input_gradient(output, weight, shape).sizes(), input.sizes());
    kernels::conv_weight_gradient(weight, output, input, shape, Into::kSum);
  }
}

}  // namespace
}  // namespace fourfold::test
