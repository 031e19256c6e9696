// The swap of channels alone, and beside a convolution whose output joins that of the swapped
// input, as in a block with a skip.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/channel_swap.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <gtest/gtest.h>

#include "tests/nn/trial.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using nn::Activations;
using nn::ChannelSwapSpec;
using nn::Spread;
using schedule::Op;

constexpr std::int64_t kSamples = Trial::kSamples;
constexpr std::int64_t kHeight = 3;
constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kRows = kSamples * kHeight * kWidth;

ChannelSwapSpec spec_of(bool transposed, Activations activations) {
  return {.name = "skip", .transposed = transposed, .activations = activations};
}

/// Two inputs, which come out as they are, in the other order.
struct Alone {
  Alone() {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<std::int64_t> shape = {kRows, i == 0 ? 24 : 48};
      inputs.push_back(normal(shape, concat("input ", i)).set_requires_grad(true));
      upstream.push_back(normal(shape, concat("upstream ", i)));
      inputs[i].mutable_grad() = upstream[i];
    }
  }
  std::shared_ptr<void> run(Trial& trial, const ChannelSwapSpec& spec) const {
    const auto before = image_layout(nn::channel_axes(spec.transposed, spec.activations));
    const auto after = image_layout(nn::channel_axes(!spec.transposed, spec.activations));
    const auto swap = std::make_shared<nn::ChannelSwap>(trial.mesh(), spec);
    const auto begun =
        swap->begin({trial.input(inputs[0], before), trial.input(inputs[1], before)});
    const std::vector<Tensor> outputs = nn::run(swap->end(begun));
    for (std::size_t i = 0; i < 2; ++i) trial.output(outputs[i], inputs[i], upstream[i], after);
    return swap;
  }
  static void sends(Payload& payload, const ChannelSwapSpec& spec) {
    const tensor::Mesh& mesh = payload.mesh();
    const Axis a = spec.transposed ? Axis::kY : Axis::kX;
    const Axis b = spec.transposed ? Axis::kX : Axis::kY;
    const std::int64_t all = kRows / mesh.size({Axis::kData, Axis::kZ}) * (24 + 48);
    payload.add_swap(2 * all / mesh.size({a, b}));
    if (spec.activations == Activations::kSharded) return;
    payload.add(Op::kAllGather, a, all / mesh.size(b));
    payload.add(Op::kAllGather, b, all / mesh.size(a));
  }

  std::vector<Tensor> inputs;
  std::vector<Tensor> upstream;
};

/// conv3(conv3(input)) + conv1(input): the swap begins before the first convolution.
struct Beside {
  Beside() {
    output = at::conv2d(picture(input), window_of(in, three()), {}, 1, 1);
    output = rows_of(at::conv2d(output, window_of(out, three()), {}, 1, 1) +
                     at::conv2d(picture(input), window_of(skip, point())));
    upstream = normal(output.sizes().vec(), "upstream");
    output.backward(upstream);
  }
  static kernels::ConvShape three() {
    return {.height = kHeight,
            .width = kWidth,
            .kernel_height = 3,
            .kernel_width = 3,
            .pad_height = 1,
            .pad_width = 1};
  }
  static kernels::ConvShape point() { return {.height = kHeight, .width = kWidth}; }
  static Tensor picture(const Tensor& rows) { return picture_of(rows, kHeight, kWidth); }
  static Tensor leaf(const grid::Shape& shape, const std::string& name, double deviation) {
    return normal(shape, name, deviation).set_requires_grad(true);
  }

  struct Layers {
    Layers(const Trial& t, const ChannelSwapSpec& spec)
        : swap(t.mesh(), spec),
          first(t.mesh(), conv("first", {{"in.weight", 24, three(), 0}}, spec, spec.transposed),
                t.precision(), 7),
          second(t.mesh(),
                 conv("second", {{"out.weight", 24, three(), 0}, {"skip.weight", 24, point(), 0}},
                      spec, !spec.transposed),
                 t.precision(), 7) {}
    static nn::ConvSpec conv(const std::string& name, std::vector<nn::ConvTerm> terms,
                             const ChannelSwapSpec& spec, bool transposed) {
      const bool sharded = spec.activations == Activations::kSharded;
      const Spread spread = sharded ? Spread::kColumns : Spread::kCopies;
      return {.name = name,
              .terms = std::move(terms),
              .out = 24,
              .transposed = transposed,
              .input = spread,
              .output = spread,
              .bias = false};
    }
    nn::ChannelSwap swap;
    nn::Conv first;
    nn::Conv second;
  };

  std::shared_ptr<void> run(Trial& trial, const ChannelSwapSpec& spec) const {
    const auto layout = image_layout(nn::channel_axes(spec.transposed, spec.activations));
    const auto layers = std::make_shared<Layers>(trial, spec);
    trial.parameter(layers->first.weights_of_terms()[0], in);
    trial.parameter(layers->second.weights_of_terms()[0], out);
    trial.parameter(layers->second.weights_of_terms()[1], skip);
    const nn::Pass& pass = trial.pass();
    const Tensor here = trial.input(input, layout);
    const auto begun = layers->swap.begin({here});
    const Tensor hidden = nn::run(layers->first.flow({here}, pass));
    const Tensor swapped = nn::run(layers->swap.end(begun))[0];
    trial.output(nn::run(layers->second.flow({hidden, swapped}, pass)), output, upstream, layout);
    return layers;
  }

  Tensor input = leaf({kRows, 24}, "input", 1);
  Tensor in = leaf({24, 9, 24}, "in", 0.1);
  Tensor out = leaf({24, 9, 24}, "out", 0.1);
  Tensor skip = leaf({24, 1, 24}, "skip", 0.2);
  Tensor output;
  Tensor upstream;
};

class SwapOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(SwapOnGrid, EqualsSerial) {
  const Alone alone;
  const Beside beside;
  expect_on_grid(GetParam(), [&](Worst& worst, const tensor::Mesh& mesh) {
    for_both([&](bool transposed, Activations activations, const std::string& name) {
      const ChannelSwapSpec spec = spec_of(transposed, activations);
      for (const Accuracy& accuracy : accuracies()) {
        see_trial(
            worst, mesh, accuracy, [&](Trial& trial) { return alone.run(trial, spec); },
            [&](Payload& payload) { Alone::sends(payload, spec); }, "alone, " + name);
        see_trial(
            worst, mesh, accuracy, [&](Trial& trial) { return beside.run(trial, spec); }, nullptr,
            "beside a convolution, " + name);
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, SwapOnGrid, testing::ValuesIn(image_grids()), name_of_grid);

/// A rank whose block has the same number in both orders sends nothing, and neither does anyone
/// where there is one order.
TEST(ChannelSwap, MovesBlocksThatHaveAnotherPlace) {
  on_threads(6, [](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.x = 3, .y = 2}));
    const nn::ChannelSwap swap(mesh, spec_of(false, Activations::kSharded));
    const bool first_or_last = world.rank() == 0 || world.rank() == 5;
    expect_on_all_ranks(world, swap.moves() == !first_or_last, concat("rank ", world.rank()));
  });
  on_threads(6, [](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.x = 6}));
    const nn::ChannelSwap swap(mesh, spec_of(false, Activations::kSharded));
    expect_on_all_ranks(world, !swap.moves(), concat("rank ", world.rank()));
  });
}

}  // namespace
}  // namespace fourfold::test
