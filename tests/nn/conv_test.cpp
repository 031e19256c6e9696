// The 4-D convolution alone against libtorch's own, for windows of all kinds, both directions and
// both spreads, and sums of several terms.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/conv.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"

#include "tests/nn/images.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using kernels::ConvShape;
using nn::ConvSpec;
using nn::Spread;

constexpr double kTolerance = 1e-10;
constexpr std::int64_t kSamples = 8;

/// Some windows of all kinds, over images that are not square.
std::vector<std::vector<ConvShape>> windows() {
  const ConvShape three{.height = 5,
                        .width = 4,
                        .kernel_height = 3,
                        .kernel_width = 3,
                        .pad_height = 1,
                        .pad_width = 1};
  const ConvShape point{.height = 5, .width = 4};
  const ConvShape five{.height = 6,
                       .width = 7,
                       .kernel_height = 5,
                       .kernel_width = 5,
                       .pad_height = 2,
                       .pad_width = 2};
  const ConvShape strided{.height = 7,
                          .width = 6,
                          .kernel_height = 3,
                          .kernel_width = 3,
                          .stride = 2,
                          .pad_height = 1,
                          .pad_width = 1};
  const ConvShape dilated{.height = 7,
                          .width = 5,
                          .kernel_height = 3,
                          .kernel_width = 3,
                          .pad_height = 2,
                          .pad_width = 2,
                          .dilation = 2};
  const ConvShape wide{.height = 6,
                       .width = 7,
                       .kernel_height = 3,
                       .kernel_width = 5,
                       .pad_height = 0,
                       .pad_width = 1};
  const ConvShape sparse{.height = 9,
                         .width = 8,
                         .kernel_height = 4,
                         .kernel_width = 4,
                         .stride = 3,
                         .pad_height = 1,
                         .pad_width = 2};
  return {{three},   {point},        {five},
          {strided}, {dilated},      {wide},
          {sparse},  {three, three}, {three, point, point}};
}

ConvSpec spec_of(const std::vector<ConvShape>& shapes) {
  ConvSpec spec{.name = "layer", .terms = {}, .out = 48};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto in = static_cast<std::int64_t>(24 * (1 + i % 2));
    spec.terms.push_back({concat("layer.weight.", i), in, shapes[i], 0.1});
  }
  return spec;
}

/// What ranks must agree with.
struct Serial {
  explicit Serial(const ConvSpec& spec) : bias(normal({spec.out}, "bias").set_requires_grad(true)) {
    Tensor sum;
    for (std::size_t i = 0; i < spec.terms.size(); ++i) {
      const nn::ConvTerm& term = spec.terms[i];
      const ConvShape& s = term.shape;
      weights.push_back(
          normal({spec.out, s.taps(), term.in}, term.name, 0.1).set_requires_grad(true));
      inputs.push_back(
          normal({kSamples * s.pixels(), term.in}, concat("input ", i)).set_requires_grad(true));
      const Tensor one =
          at::conv2d(picture_of(inputs.back(), s.height, s.width), window_of(weights.back(), s), {},
                     s.stride, {s.pad_height, s.pad_width}, s.dilation);
      sum = sum.defined() ? sum + one : one;
    }
    output = rows_of(sum) + bias;
    upstream = normal(output.sizes().vec(), "upstream");
    output.backward(upstream);
    output = output.detach();
  }

  std::vector<Tensor> weights;
  std::vector<Tensor> inputs;
  Tensor bias;
  Tensor output;
  Tensor upstream;
};

grid::Axes axes_of(Spread spread, Axis first, Axis second) {
  return spread == Spread::kColumns ? grid::Axes({first, second}) : grid::Axes(first);
}

void see_layer(Worst& worst, const tensor::Mesh& mesh, const ConvSpec& spec, const Serial& serial,
               const std::string& name) {
  const Axis contract = spec.transposed ? Axis::kY : Axis::kX;
  const Axis produce = spec.transposed ? Axis::kX : Axis::kY;
  const grid::Layout in = image_layout(axes_of(spec.input, contract, produce));
  const grid::Layout out = image_layout(axes_of(spec.output, produce, contract));
  const nn::Conv layer(mesh, spec, nn::Precision::float64(), 7);
  load(mesh, *layer.bias(), serial.bias.detach());
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < spec.terms.size(); ++i) {
    load(mesh, *layer.weights_of_terms()[i], serial.weights[i].detach());
    inputs.push_back(leaf_of(mesh, serial.inputs[i].detach(), in));
  }
  const nn::Vectors vectors(mesh, {layer.bias()});
  tensor::InFlight in_flight(mesh);
  const nn::Pass pass(in_flight, vectors);
  const Tensor output = nn::run(layer.flow(inputs, pass));
  worst.see(relative_error(output.detach(), part_of(mesh, serial.output, out), serial.output),
            name + "output");
  output.backward(part_of(mesh, serial.upstream, out));
  in_flight.sums().drain();
  sum_over_replicas(mesh, layer.parameters());
  Worst here;
  for (std::size_t i = 0; i < spec.terms.size(); ++i) {
    const Tensor& whole = serial.inputs[i].grad();
    here.see(relative_error(inputs[i].grad(), part_of(mesh, whole, in), whole),
             concat("input gradient ", i));
    see_gradient(here, mesh, *layer.weights_of_terms()[i], serial.weights[i].grad());
  }
  see_gradient(here, mesh, *layer.bias(), serial.bias.grad());
  worst.see(here.error, name + here.where);
}

class ConvOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(ConvOnGrid, EqualsSerial) {
  std::vector<std::pair<ConvSpec, Serial>> cases;
  for (const std::vector<ConvShape>& shapes : windows()) {
    const ConvSpec spec = spec_of(shapes);
    cases.emplace_back(spec, Serial(spec));
  }
  const grid::Grid grid(GetParam());
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    Worst worst;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      for (const bool transposed : {false, true}) {
        for (const Spread input : {Spread::kColumns, Spread::kCopies}) {
          for (const Spread output : {Spread::kColumns, Spread::kCopies}) {
            ConvSpec spec = cases[i].first;
            spec.transposed = transposed;
            spec.input = input;
            spec.output = output;
            see_layer(worst, mesh, spec, cases[i].second,
                      concat("case ", i, transposed ? " transposed" : "",
                             input == Spread::kColumns ? " columns -> " : " copies -> ",
                             output == Spread::kColumns ? "columns: " : "copies: "));
          }
        }
      }
    }
    expect_on_all_ranks(world, worst.error <= kTolerance,
                        concat(grid, ": error ", worst.error, " of ", worst.where));
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, ConvOnGrid, testing::ValuesIn(image_grids()), name_of_grid);

std::string refusal(const ConvSpec& spec, const grid::Sizes& sizes) {
  comm::World world = comm::recording::open(0, grid::Grid(sizes).ranks());
  const tensor::Mesh mesh(world, grid::Grid(sizes));
  try {
    const nn::Conv layer(mesh, spec, nn::Precision::float64(), 7);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Conv, RefusesChannelsThatDoNotDivide) {
  ConvSpec spec{.name = "layer", .terms = {{"layer.weight", 10, {}, 0}}, .out = 12};
  EXPECT_EQ(refusal(spec, {.x = 2, .y = 3}),
            "layer.weight: 10 input channels cannot be split over x times y = 6; choose sizes that "
            "divide them");
  spec.terms[0].in = 12;
  spec.out = 9;
  EXPECT_EQ(refusal(spec, {.x = 2, .y = 3}),
            "layer: 9 output channels cannot be split over x times y = 6; choose sizes that divide "
            "them");
  spec.output = Spread::kCopies;
  EXPECT_EQ(refusal(spec, {.x = 2, .y = 3}), "not refused");
}

}  // namespace
}  // namespace fourfold::test
