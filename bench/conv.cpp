// The speed of convolutions on one core: forward, gradient of the input and gradient of the weight,
// beside libtorch's own on pictures in the same order of memory (channels last), which is what a
// program of libtorch would use. The two take turns, and the best of all turns counts.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/conv.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "fourfold/base/units.hpp"

namespace {

using at::Tensor;
using namespace fourfold;
using kernels::ConvShape;

struct Case {
  std::int64_t samples;
  std::int64_t in;
  std::int64_t out;
  std::int64_t size;
  std::int64_t stride = 1;

  ConvShape shape() const {
    return {.height = size,
            .width = size,
            .kernel_height = 3,
            .kernel_width = 3,
            .stride = stride,
            .pad_height = 1,
            .pad_width = 1};
  }
  double flops() const {
    return 2.0 * 9 * static_cast<double>(samples * shape().out_pixels() * in * out);
  }
};

double seconds_of(const std::function<void()>& work) {
  const Seconds start = now();
  work();
  return (now() - start).value();
}

/// Prints GFLOP/s of ours and of the plain way, and their ratio.
void contest(const char* what, const Case& c, const std::function<void()>& ours,
             const std::function<void()>& plain, int turns) {
  double best_ours = 1e9;
  double best_plain = 1e9;
  for (int i = 0; i < turns; ++i) {
    best_ours = std::min(best_ours, seconds_of(ours));
    best_plain = std::min(best_plain, seconds_of(plain));
  }
  std::printf("  %-3s %7.1f %7.1f GFLOP/s  %5.2f", what, c.flops() / best_ours / 1e9,
              c.flops() / best_plain / 1e9, best_plain / best_ours);
}

void measure(const Case& c, at::ScalarType type, int turns) {
  const ConvShape shape = c.shape();
  const auto options = at::TensorOptions(type);
  const Tensor input = at::randn({c.samples * shape.pixels(), c.in}).to(type);
  const Tensor weight = (at::randn({c.out, 9, c.in}) * 0.1).to(type);
  const Tensor gradient = at::randn({c.samples * shape.out_pixels(), c.out}).to(type);
  Tensor weight_gradient = at::empty({c.out, 9, c.in}, options);
  const auto picture = [](const Tensor& rows, std::int64_t size) {
    return rows.view({-1, size, size, rows.size(1)}).permute({0, 3, 1, 2});
  };
  const Tensor in_picture = picture(input, c.size);
  const Tensor out_picture = picture(gradient, shape.out_height());
  const Tensor window = weight.view({c.out, 3, 3, c.in}).permute({0, 3, 1, 2});
  const auto plain_backward = [&](bool of_input) {
    at::convolution_backward(out_picture, in_picture, window, c10::nullopt, {c.stride, c.stride},
                             {1, 1}, {1, 1}, false, {0, 0}, 1, {of_input, !of_input, false});
  };
  std::printf("%4ld x %4ld -> %4ld, %3ld x %-3ld %s %s", c.samples, c.in, c.out, c.size, c.size,
              c.stride == 1 ? "  " : "/2", type == at::kFloat ? "f32 " : "bf16");
  contest(
      "O", c, [&] { kernels::conv(input, weight, shape); },
      [&] { at::conv2d(in_picture, window, {}, c.stride, 1); }, turns);
  contest(
      "dI", c, [&] { kernels::conv_input_gradient(gradient, weight, shape); },
      [&] { plain_backward(true); }, turns);
  contest(
      "dW", c,
      [&] {
        kernels::conv_weight_gradient(weight_gradient, gradient, input, shape, kernels::Into::kNew);
      },
      [&] { plain_backward(false); }, turns);
  std::printf("\n");
  std::fflush(stdout);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t samples : {8, 2}) {
    all.push_back({samples, 64, 64, 32});
    all.push_back({samples, 64, 64, 32, 2});
    all.push_back({samples, 128, 128, 16});
    all.push_back({samples, 256, 256, 8});
    all.push_back({samples, 512, 512, 4});
    all.push_back({samples, 32, 32, 28});
    all.push_back({samples, 64, 64, 14});
    all.push_back({samples, 64, 64, 7});
    all.push_back({samples, 1, 64, 32});
    all.push_back({samples, 3, 128, 32});
    all.push_back({samples, 64, 1, 32});
    all.push_back({samples, 128, 3, 32});
    all.push_back({samples, 128, 6, 32});
    all.push_back({samples, 128, 8, 32});
    all.push_back({samples, 128, 16, 32});
  }
  return all;
}

}  // namespace

int main(int count, char** arguments) {
  const int turns = count > 1 ? std::atoi(arguments[1]) : 20;
  at::set_num_threads(1);
  const at::NoGradGuard no_graph;
  std::printf("ours, libtorch's own, and how many times faster ours is; best of %d turns\n", turns);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Case& one : cases()) measure(one, type, turns);
  }
}
