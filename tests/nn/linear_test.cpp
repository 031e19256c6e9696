// The 4-D linear layer alone against one process, for every way its input and output are spread.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/linear.hpp"

#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/nn/vectors.hpp"

#include "tests/model/compare.hpp"
#include "tests/nn/pieces.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using grid::Layout;
using nn::LinearSpec;
using nn::Spread;

constexpr double kTolerance = 1e-10;

const char* to_string(Spread spread) {
  switch (spread) {
    case Spread::kRows:
      return "rows";
    case Spread::kColumns:
      return "columns";
    case Spread::kCopies:
      return "copies";
  }
  return "";
}

/// How a matrix whose columns are split over `across` is spread over `along` too.
Layout layout_of(Spread spread, Axis across, Axis along) {
  switch (spread) {
    case Spread::kRows:
      return split_over({Axis::kData, Axis::kZ, along}, across);
    case Spread::kColumns:
      return split_over({Axis::kData, Axis::kZ}, {across, along});
    case Spread::kCopies:
      return split_over({Axis::kData, Axis::kZ}, across);
  }
  return {};
}

/// One forward and backward pass, of one process.
struct Pass {
  Tensor input;
  Tensor upstream;
  Tensor output;
  Tensor input_gradient;
};

/// Two passes of a layer with everything that ranks must agree with. Gradients are those of both.
struct Serial {
  Serial(const LinearSpec& spec, std::int64_t rows)
      : weight(normal({spec.out, spec.in}, "weight").set_requires_grad(true)),
        bias(spec.bias ? normal({spec.out}, "bias").set_requires_grad(true) : Tensor()) {
    for (const char* number : {"first ", "second "}) {
      Pass pass{.input = normal({rows, spec.in}, concat(number, "input")).set_requires_grad(true),
                .upstream = normal({rows, spec.out}, concat(number, "upstream")),
                .output = {},
                .input_gradient = {}};
      const Tensor output =
          at::linear(pass.input, weight, spec.bias ? c10::optional<Tensor>(bias) : c10::nullopt);
      output.backward(pass.upstream);
      pass.output = output.detach();
      pass.input_gradient = pass.input.grad();
      pass.input = pass.input.detach();
      passes.push_back(pass);
    }
  }

  Tensor weight;
  Tensor bias;
  std::vector<Pass> passes;
};

/// Both passes on this rank.
void see_layer(Worst& worst, const tensor::Mesh& mesh, const LinearSpec& spec,
               const Serial& serial) {
  const std::string name = concat(to_string(spec.input), "->", to_string(spec.output),
                                  spec.transposed ? " transposed" : "", spec.bias ? " bias " : " ");
  const Axis contract = spec.transposed ? Axis::kY : Axis::kX;
  const Axis produce = spec.transposed ? Axis::kX : Axis::kY;
  const nn::Linear layer(mesh, spec, nn::Precision::float64(), 7);
  load(mesh, *layer.weight(), serial.weight.detach());
  nn::Parameters biases;
  if (spec.bias) {
    load(mesh, *layer.bias(), serial.bias.detach());
    biases.push_back(layer.bias());
  }
  const nn::Vectors vectors(mesh, biases);
  const Layout in = layout_of(spec.input, contract, produce);
  const Layout out = layout_of(spec.output, produce, contract);
  tensor::InFlight in_flight(mesh);
  for (const Pass& pass : serial.passes) {
    const Tensor input = leaf_of(mesh, pass.input, in);
    const Tensor output = layer.forward(input, nn::Pass(in_flight, vectors));
    worst.see(relative_error(output.detach(), part_of(mesh, pass.output, out), pass.output),
              name + "output");
    output.backward(part_of(mesh, pass.upstream, out));
    worst.see(
        relative_error(input.grad(), part_of(mesh, pass.input_gradient, in), pass.input_gradient),
        name + "input gradient");
  }
  in_flight.sums().drain();
  sum_over_replicas(mesh, layer.parameters());
  Worst here;
  see_gradient(here, mesh, *layer.weight(), serial.weight.grad());
  if (spec.bias) see_gradient(here, mesh, *layer.bias(), serial.bias.grad());
  worst.see(here.error, name + here.where);
}

/// Every combination on one grid.
void run_grid(const grid::Sizes& sizes, std::int64_t in, std::int64_t out, std::int64_t rows) {
  std::vector<std::pair<LinearSpec, Serial>> layers;
  for (const bool bias : {false, true}) {
    LinearSpec spec{.name = "layer", .in = in, .out = out, .bias = bias};
    const Serial serial(spec, rows);
    for (const bool transposed : {false, true}) {
      for (const Spread input : {Spread::kRows, Spread::kColumns, Spread::kCopies}) {
        for (const Spread output : {Spread::kRows, Spread::kColumns, Spread::kCopies}) {
          spec.transposed = transposed;
          spec.input = input;
          spec.output = output;
          layers.emplace_back(spec, serial);
        }
      }
    }
  }
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    Worst worst;
    for (const auto& [spec, serial] : layers) see_layer(worst, mesh, spec, serial);
    expect_on_all_ranks(world, worst.error <= kTolerance,
                        concat(grid, ": error ", worst.error, " of ", worst.where));
  });
}

class LinearOnGrid : public testing::TestWithParam<grid::Sizes> {};

/// 3 and 5 make odd sizes: with z > 1 rows of the weight do not divide, some shards are empty.
TEST_P(LinearOnGrid, EqualsSerial) {
  const grid::Sizes& s = GetParam();
  const int plane = s.x * s.y;
  run_grid(s, 3 * plane, 5 * plane, std::int64_t{3} * plane * s.z * s.data);
}

std::string name_of(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

INSTANTIATE_TEST_SUITE_P(Grids, LinearOnGrid,
                         testing::Values(grid::Sizes{}, grid::Sizes{.x = 2}, grid::Sizes{.y = 2},
                                         grid::Sizes{.z = 2}, grid::Sizes{.x = 2, .y = 2, .z = 2},
                                         grid::Sizes{.x = 2, .y = 3, .z = 2},
                                         grid::Sizes{.y = 2, .z = 4}, grid::Sizes{.x = 2, .z = 4},
                                         grid::Sizes{.data = 2}, grid::Sizes{.x = 2, .data = 2},
                                         grid::Sizes{.y = 2, .data = 2},
                                         grid::Sizes{.z = 2, .data = 2},
                                         grid::Sizes{.x = 3, .z = 2, .data = 2}),
                         name_of);

TEST(Linear, RowsOfTheWeightThatDoNotDivide) {
  run_grid({.y = 2, .z = 4}, 14, 30, 16);  // 15 rows over 4 ranks
}

/// The message of the ConfigError of a layer on that grid, or what happened instead.
std::string refusal(const LinearSpec& spec, const grid::Sizes& sizes) {
  comm::World world = comm::recording::open(0, grid::Grid(sizes).ranks());
  const tensor::Mesh mesh(world, grid::Grid(sizes));
  try {
    const nn::Linear layer(mesh, spec, nn::Precision::float64(), 7);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Linear, RefusesInputsThatDoNotDivide) {
  const std::string message = refusal({.name = "layer", .in = 7, .out = 6}, {.x = 2, .y = 3});
  EXPECT_EQ(message,
            "layer: 7 inputs cannot be split over x=2; choose a size of x that divides it");
  const std::string transposed =
      refusal({.name = "layer", .in = 7, .out = 6, .transposed = true}, {.x = 2, .y = 3});
  EXPECT_NE(transposed.find("7 inputs cannot be split over y=3"), std::string::npos) << transposed;
}

TEST(Linear, RefusesOutputsThatDoNotDivide) {
  const std::string message = refusal({.name = "layer", .in = 6, .out = 7}, {.x = 2, .y = 3});
  EXPECT_NE(message.find("7 outputs cannot be split over y=3"), std::string::npos) << message;
  const std::string transposed =
      refusal({.name = "layer", .in = 6, .out = 7, .transposed = true}, {.x = 2, .y = 3});
  EXPECT_NE(transposed.find("7 outputs cannot be split over x=2"), std::string::npos) << transposed;
}

/// Columns that are spread are split over both axes.
TEST(Linear, RefusesSpreadColumnsThatDoNotDivide) {
  const std::string input =
      refusal({.name = "layer", .in = 10, .out = 6, .input = Spread::kColumns}, {.x = 2, .y = 3});
  EXPECT_NE(input.find("y=3"), std::string::npos) << input;
  const std::string output =
      refusal({.name = "layer", .in = 6, .out = 9, .output = Spread::kColumns}, {.x = 2, .y = 3});
  EXPECT_NE(output.find("x=2"), std::string::npos) << output;
}

}  // namespace
}  // namespace fourfold::test
