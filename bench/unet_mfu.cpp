// The speed of training a U-Net beside the speed of its convolutions alone, in one process:
//   mpirun ... build/release/bench/unet_mfu CONFIG GRID STEPS [section.key=value...]
// All ranks first train together, and then compute at the same time the convolutions of the network
// for their share of the samples, as data parallelism would cut them: forward, both gradients, one
// after the other. mfu is the rate of the steps over the rate of the convolutions.
// bench/unet_mfu.sh runs it for several grids and precisions.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "fourfold/comm/mpi/mpi.hpp"
#include "fourfold/config/read.hpp"
#include "fourfold/kernels/conv.hpp"
#include "fourfold/model/unet.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/setup.hpp"
#include "fourfold/train/trainer.hpp"

namespace {

using namespace fourfold;
using at::Tensor;

/// A convolution of the network.
struct Layer {
  std::int64_t in;
  std::int64_t out;
  kernels::ConvShape shape;

  double flops(std::int64_t samples) const {
    return 6.0 * static_cast<double>(samples * shape.out_pixels() * shape.taps() * in * out);
  }
};

kernels::ConvShape window(std::int64_t size, std::int64_t kernel, std::int64_t stride = 1) {
  return {.height = size,
          .width = size,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride = stride,
          .pad_height = kernel / 2,
          .pad_width = kernel / 2};
}

/// Those between the first and the last convolution, which have few channels.
std::vector<Layer> layers_of(const model::UNetSpec& spec) {
  using Kind = model::UNetBlockSpec::Kind;
  std::vector<Layer> layers;
  const model::UNetPlan plan(spec);
  for (const model::UNetBlockSpec& block : plan.blocks()) {
    const std::int64_t out = block.output.channels;
    const std::int64_t size = block.output.size;
    if (block.kind == Kind::kResidual) {
      layers.push_back({block.in_channels(), out, window(size, 3)});
      layers.push_back({out, out, window(size, 3)});
      if (block.in_channels() != out) layers.push_back({block.in_channels(), out, window(size, 1)});
    } else if (block.kind == Kind::kAttention) {
      layers.push_back({out, 3 * out, window(size, 1)});
      layers.push_back({out, out, window(size, 1)});
    } else if (block.kind == Kind::kDown) {
      layers.push_back({out, out, window(block.inputs[0].size, 3, 2)});
    } else {
      layers.push_back({out, out, window(size, 3)});
    }
  }
  return layers;
}

/// The seconds of a pass through all layers: each works on its own data, as in training.
class Convolutions {
 public:
  Convolutions(const std::vector<Layer>& layers, std::int64_t samples, at::ScalarType type) {
    for (const Layer& layer : layers) {
      flops_ += layer.flops(samples);
      const auto images = [&](std::int64_t pixels, std::int64_t channels) {
        return at::randn({samples * pixels, channels}).to(type);
      };
      work_.push_back({layer.shape, images(layer.shape.pixels(), layer.in),
                       images(layer.shape.out_pixels(), layer.out),
                       at::randn({layer.out, layer.shape.taps(), layer.in}).to(type),
                       at::empty({layer.out, layer.shape.taps(), layer.in}, type)});
    }
  }

  double flops() const { return flops_; }

  double seconds() {
    const Seconds begin = now();
    for (One& one : work_) kernels::conv(one.input, one.weight, one.shape);
    for (One& one : work_) {
      kernels::conv_input_gradient(one.gradient, one.weight, one.shape);
      kernels::conv_weight_gradient(one.sum, one.gradient, one.input, one.shape,
                                    kernels::Into::kNew);
    }
    return (now() - begin).value();
  }

 private:
  struct One {
    kernels::ConvShape shape;
    Tensor input;
    Tensor gradient;
    Tensor weight;
    Tensor sum;
  };
  std::vector<One> work_;
  double flops_ = 0;
};

/// Numbers that look like images enough for arithmetic.
void read_image(std::int64_t sample, std::span<const Tensor> data) {
  Tensor image = data[0].view({-1});
  const Tensor numbers = at::arange(image.numel(), at::kDouble);
  image.copy_(at::sin(numbers * (0.1 + 0.01 * static_cast<double>(sample % 17))));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: unet_mfu CONFIG GRID STEPS [section.key=value...]\n");
    return 2;
  }
  tensor::keep_freed_memory();
  auto world = comm::mpi::open();
  config::Source source;
  source.path = argv[1];
  source.grid = argv[2];
  source.overrides.assign(argv + 4, argv + argc);
  const config::Config config = config::read(source);
  const train::Recipe recipe = train::recipe_of(config);
  const auto* described = dynamic_cast<const model::UNetModel*>(recipe.model.get());
  if (described == nullptr) {
    std::fprintf(stderr, "%s describes no U-Net\n", argv[1]);
    return 2;
  }
  const tensor::Mesh mesh(world, grid::Grid(config.parallel.sizes, config.parallel.placement),
                          recipe.overlap);
  auto trainer = std::make_unique<train::Trainer>(mesh, recipe);
  const int steps = std::max(2, std::atoi(argv[3]));
  std::vector<double> times;
  for (int step = 1; step <= steps; ++step) {
    mesh.everyone().barrier().wait();
    const Seconds begin = now();
    trainer->step(step, read_image);
    mesh.everyone().barrier().wait();
    if (step > 1) times.push_back((now() - begin).value());
  }
  trainer->finish();
  trainer.reset();
  Convolutions convolutions(layers_of(described->spec()), recipe.batch / world.size(),
                            recipe.model->execution().precision.compute);
  double fastest = 1e9;
  for (int turn = 0; turn < steps; ++turn) {
    mesh.everyone().barrier().wait();
    fastest = std::min(fastest, convolutions.seconds());
  }
  double rate = convolutions.flops() / fastest;  // of all ranks
  mesh.everyone().all_reduce({&rate, 1, schedule::DType::kF64}).wait();
  if (world.rank() == 0) {
    const double flops = recipe.model->flops(recipe.batch).value();
    std::sort(times.begin(), times.end());
    std::printf(
        "%-8s median %.4f s, fastest %.4f s, %.1f of %.1f GFLOP/s: mfu %.3f, fastest %.3f\n",
        argv[2], times[times.size() / 2], times.front(), flops / times[times.size() / 2] / 1e9,
        rate / 1e9, flops / times[times.size() / 2] / rate, flops / times.front() / rate);
  }
  world.leave();
}
