// The first and the last convolution of a network against libtorch's own.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/nn/entry_conv.hpp"
#include "fourfold/nn/exit_conv.hpp"

#include "tests/nn/trial.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using nn::Activations;
using schedule::Op;

constexpr std::int64_t kHeight = 5;
constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kPixels = kHeight * kWidth;
constexpr std::int64_t kRows = Trial::kSamples * kPixels;

kernels::ConvShape three() {
  return {.height = kHeight,
          .width = kWidth,
          .kernel_height = 3,
          .kernel_width = 3,
          .pad_height = 1,
          .pad_width = 1};
}

/// A convolution of images of `in` channels.
struct Serial {
  Serial(std::int64_t in, std::int64_t out, bool of_data)
      : input(normal({kRows, in}, "input").set_requires_grad(!of_data)),
        weight(normal({out, 9, in}, "weight", 0.2).set_requires_grad(true)),
        bias(normal({out}, "bias").set_requires_grad(true)),
        output(rows_of(at::conv2d(picture_of(input, kHeight, kWidth), window_of(weight, three()),
                                  bias, 1, 1))),
        upstream(normal({kRows, out}, "upstream")) {
    output.backward(upstream);
  }
  Tensor input;
  Tensor weight;
  Tensor bias;
  Tensor output;
  Tensor upstream;
};

const grid::Layout kWhole = image_layout({});

grid::Axes axes_of(Activations activations) {
  return nn::channel_axes(false, activations);
}

/// The axes over which a parameter is gathered.
grid::Axes gathered(Activations activations) {
  return activations == Activations::kSharded ? grid::Axes(Axis::kZ)
                                              : grid::Axes({Axis::kY, Axis::kZ});
}

class EndsOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(EndsOnGrid, FirstEqualsSerial) {
  const Serial grey(1, 48, true);
  const Serial colours(3, 24, true);
  expect_on_grid(GetParam(), [&](Worst& worst, const tensor::Mesh& mesh) {
    for (const Serial* serial : {&grey, &colours}) {
      for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
        const nn::EntryConvSpec spec{.name = "conv_in",
                                     .in = serial->input.size(1),
                                     .out = serial->bias.size(0),
                                     .shape = three(),
                                     .activations = activations};
        const auto layers = [&](Trial& trial) -> std::shared_ptr<void> {
          const auto layer =
              std::make_shared<nn::EntryConv>(trial.mesh(), spec, trial.precision(), 7);
          trial.parameter(layer->weight(), serial->weight);
          trial.parameter(layer->bias(), serial->bias);
          const Tensor images = trial.input(serial->input, kWhole);
          trial.output(layer->forward(images, trial.pass(*layer)), serial->output, serial->upstream,
                       image_layout(axes_of(activations)));
          return layer;
        };
        const auto sends = [&](Payload& payload) {
          const std::int64_t rows = spec.out / mesh.size(axes_of(activations));
          payload.add_parameter(rows, 9 * spec.in, gathered(activations), Axis::kZ);
          payload.add_parameter(rows, 1, gathered(activations), Axis::kZ);
        };
        for (const Accuracy& accuracy : accuracies()) {
          see_trial(worst, mesh, accuracy, layers, sends,
                    concat("from ", spec.in,
                           activations == Activations::kSharded ? " channels, sharded"
                                                                : " channels, replicated"));
        }
      }
    }
  });
}

TEST_P(EndsOnGrid, LastEqualsSerial) {
  const Serial grey(48, 1, false);
  const Serial colours(24, 3, false);
  const Serial with_sigma(24, 6, false);
  expect_on_grid(GetParam(), [&](Worst& worst, const tensor::Mesh& mesh) {
    for (const Serial* serial : {&grey, &colours, &with_sigma}) {
      for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
        const nn::ExitConvSpec spec{.name = "conv_out",
                                    .in = serial->input.size(1),
                                    .out = serial->bias.size(0),
                                    .shape = three(),
                                    .activations = activations};
        const grid::Axes axes = axes_of(activations);
        const auto layers = [&](Trial& trial) -> std::shared_ptr<void> {
          const auto layer =
              std::make_shared<nn::ExitConv>(trial.mesh(), spec, trial.precision(), 7);
          trial.parameter(layer->weight(), serial->weight);
          trial.parameter(layer->bias(), serial->bias);
          const Tensor input = trial.input(serial->input, image_layout(axes));
          trial.output(nn::run(layer->flow(input, trial.pass(*layer))), serial->output,
                       serial->upstream, kWhole);
          return layer;
        };
        const auto sends = [&](Payload& payload) {
          payload.add_parameter(spec.out, 9 * spec.in / mesh.size(axes), gathered(activations),
                                Axis::kZ, 2);
          std::int64_t biases = spec.out;  // of a rank, with padding
          for (const Axis axis : axes) biases = (biases + mesh.size(axis) - 1) / mesh.size(axis);
          payload.add_parameter(biases, 1, gathered(activations), Axis::kZ);
          const std::int64_t rows = kRows / mesh.size({Axis::kData, Axis::kZ});
          payload.add(Op::kAllReduce, axes, rows * spec.out);
        };
        for (const Accuracy& accuracy : accuracies()) {
          see_trial(worst, mesh, accuracy, layers, sends,
                    concat("to ", spec.out,
                           activations == Activations::kSharded ? " channels, sharded"
                                                                : " channels, replicated"));
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, EndsOnGrid, testing::ValuesIn(image_grids()), name_of_grid);

TEST(Ends, RefuseChannelsThatDoNotDivide) {
  const grid::Sizes sizes{.x = 2, .y = 3};
  nn::EntryConvSpec first{.name = "conv_in", .in = 1, .out = 8, .shape = three()};
  EXPECT_EQ(nn::EntryConv::misfit(first, sizes),
            "conv_in: 8 output channels cannot be split over x times y = 6; choose sizes that "
            "divide them");
  first.activations = Activations::kReplicated;
  EXPECT_EQ(nn::EntryConv::misfit(first, sizes), "");
  const nn::ExitConvSpec last{.name = "conv_out", .in = 8, .out = 1, .shape = three()};
  EXPECT_EQ(nn::ExitConv::misfit(last, sizes),
            "conv_out: 8 input channels cannot be split over x times y = 6; choose sizes that "
            "divide them");
  comm::World world = comm::recording::open(0, 6);
  const tensor::Mesh mesh(world, grid::Grid(sizes));
  EXPECT_THROW(nn::ExitConv(mesh, last, nn::Precision::float64(), 7), ConfigError);
}

}  // namespace
}  // namespace fourfold::test
