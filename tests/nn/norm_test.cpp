// Norms over columns that are split, against one process, and where their statistics are hard.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/layer_norm.h>
#include <gtest/gtest.h>

#include "fourfold/nn/layer_norm.hpp"
#include "fourfold/nn/rms_norm.hpp"
#include "fourfold/nn/vectors.hpp"

#include "tests/model/compare.hpp"
#include "tests/nn/pieces.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using grid::Layout;
using nn::Activations;

constexpr std::int64_t kRows = 12;
constexpr std::int64_t kWidth = 30;  // 5 and 10 for each rank, and not a multiple of vectors
constexpr double kEpsilon = 1e-5;

/// A norm of libtorch's operations, as a function of rows and vectors.
using Norm = Tensor (*)(const Tensor& rows, const std::vector<Tensor>& vectors);

Tensor layer_norm(const Tensor& rows, const std::vector<Tensor>& vectors) {
  return at::layer_norm(rows, {rows.size(1)}, vectors[0], vectors[1], kEpsilon);
}

Tensor rms_norm(const Tensor& rows, const std::vector<Tensor>& vectors) {
  return rows * (rows.square().mean(1, true) + kEpsilon).rsqrt() * vectors[0];
}

struct Serial {
  explicit Serial(Tensor rows, Norm norm = layer_norm)
      : input(std::move(rows)), upstream(normal(input.sizes().vec(), "upstream")) {
    for (const char* name : {"scale", "shift"}) {
      vectors.push_back(normal({input.size(1)}, name).set_requires_grad(true));
    }
    const Tensor leaf = input.detach().clone().set_requires_grad(true);
    const Tensor result = norm(leaf, vectors);
    result.backward(upstream);
    output = result.detach();
    input_gradient = leaf.grad();
  }

  Tensor input;
  std::vector<Tensor> vectors;  ///< scale and shift
  Tensor upstream;
  Tensor output;
  Tensor input_gradient;
};

Layout layout_of(Activations activations) {
  return activations == Activations::kSharded
             ? split_over({Axis::kData, Axis::kZ, Axis::kY}, Axis::kX)
             : split_over({Axis::kData, Axis::kZ}, Axis::kX);
}

/// The layer on this rank, on `input` in its type, against everything serial.
template <class Layer>
Worst worst_of(const tensor::Mesh& mesh, Activations activations, const Tensor& input,
               const Serial& serial) {
  Worst worst;
  const auto type = input.scalar_type();
  const Layer layer(mesh, "norm", input.size(1), activations, {type, type}, 7, kEpsilon);
  const nn::Vectors vectors(mesh, layer.vectors());
  const nn::Parameters& parameters = vectors.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    load(mesh, *parameters[i], serial.vectors[i].detach());
  }
  tensor::InFlight in_flight(mesh);
  const nn::Pass pass(in_flight, vectors);
  const Layout layout = layout_of(activations);
  const Tensor leaf = leaf_of(mesh, input, layout);
  const Tensor output = layer.forward(leaf, pass);
  worst.see(relative_error(output.detach(), part_of(mesh, serial.output, layout), serial.output),
            "output");
  output.backward(part_of(mesh, serial.upstream, layout).to(type));
  worst.see(relative_error(leaf.grad(), part_of(mesh, serial.input_gradient, layout),
                           serial.input_gradient),
            "input gradient");
  in_flight.sums().drain();
  sum_over_replicas(mesh, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    see_gradient(worst, mesh, *parameters[i], serial.vectors[i].grad());
  }
  return worst;
}

template <class Layer = nn::LayerNorm>
void run(const grid::Sizes& sizes, const Tensor& input, const Serial& serial, double tolerance) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
      const Worst worst = worst_of<Layer>(mesh, activations, input, serial);
      expect_on_all_ranks(world, worst.error <= tolerance,
                          concat(grid, ": error ", worst.error, " of ", worst.where));
    }
  });
}

/// max|a - b| / max|b| of the norm of rows whose variance is E[x²] - E[x]², without scale and
/// shift.
double naive_error(const Tensor& input, const Tensor& shifted) {
  const Tensor mean = input.mean(1, true);
  const Tensor variance = input.square().mean(1, true) - mean.square();
  const Tensor result = (input - mean) * (variance.clamp_min(0) + kEpsilon).rsqrt();
  const Tensor right = at::layer_norm(shifted, {shifted.size(1)}, {}, {}, kEpsilon);
  return relative_error(result, right, right);
}

const std::vector<grid::Sizes> kGrids = {
    {},
    {.x = 2},
    {.x = 3},
    {.y = 2, .z = 2},
    {.x = 3, .y = 2},
    {.x = 2, .y = 3, .z = 2},
    {.x = 2, .z = 2, .data = 2},
};

TEST(LayerNorm, EqualsSerial) {
  const Tensor input = normal({kRows, kWidth}, "input") + normal({kRows, 1}, "means");
  const Serial serial(input);
  for (const grid::Sizes& sizes : kGrids) run(sizes, input, serial, 1e-10);
}

TEST(RmsNorm, EqualsSerial) {
  const Tensor input = normal({kRows, kWidth}, "input") + normal({kRows, 1}, "means");
  const Serial serial(input, rms_norm);
  for (const grid::Sizes& sizes : kGrids) run<nn::RmsNorm>(sizes, input, serial, 1e-10);
}

/// Numbers near 1e8 are 1.5e-8 apart in float64: that, and not their squares, bounds the error.
TEST(LayerNorm, KeepsTheVarianceOfRowsFarFromZero) {
  constexpr double kMean = 1e8;
  constexpr double kBound = 1e-7;
  const Tensor input = normal({kRows, kWidth}, "input") + kMean;
  const Serial shifted(input - kMean);  // exact
  EXPECT_GT(naive_error(input, shifted.input), 1000 * kBound) << "the test would show nothing";
  for (const int x : {1, 2, 3}) run({.x = x}, input, shifted, kBound);
}

/// Numbers near 1e4 are 1e-3 apart in float32.
TEST(LayerNorm, KeepsTheVarianceOfRowsFarFromZeroInFloat) {
  constexpr double kMean = 1e4;
  constexpr double kBound = 5e-3;
  const Tensor input = (normal({kRows, kWidth}, "input") + kMean).to(at::kFloat);
  const Serial shifted(input.to(at::kDouble) - kMean);
  EXPECT_GT(naive_error(input, shifted.input), 20 * kBound) << "the test would show nothing";
  for (const int x : {1, 2, 3}) run({.x = x}, input, shifted, kBound);
}

/// One rank's means differ from another's by far more than the elements do.
TEST(LayerNorm, MergesPartsWithDifferentMeans) {
  Tensor input = normal({kRows, kWidth}, "input");
  input.narrow(1, 0, kWidth / 2).add_(1e6);
  const Serial serial(input);
  for (const int x : {1, 2, 3}) run({.x = x}, input, serial, 1e-10);
}

/// A new norm multiplies by one and adds nothing.
TEST(LayerNorm, BeginsWithOnesAndZeros) {
  on_threads(2, [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.x = 2}));
    const nn::LayerNorm layer(mesh, "norm", kWidth, Activations::kSharded, nn::Precision::float64(),
                              7);
    const nn::RmsNorm rms(mesh, "rms", kWidth, Activations::kSharded, nn::Precision::float64(), 7,
                          kEpsilon);
    const bool ones = layer.scale()->value().eq(1).all().item<bool>() &&
                      rms.vectors().at(0)->value().eq(1).all().item<bool>();
    expect_on_all_ranks(world, ones, "a scale does not begin with ones");
    const bool zeros = layer.shift()->value().eq(0).all().item<bool>();
    expect_on_all_ranks(world, zeros, "the shift does not begin with zeros");
  });
}

TEST(LayerNorm, ConstantRowsGiveTheShift) {
  on_threads(3, [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.x = 3}));
    for (const double value : {0.0, 0.1, -1e8}) {
      const nn::LayerNorm layer(mesh, "norm", kWidth, Activations::kSharded,
                                nn::Precision::float64(), 7);
      const Tensor shift = normal({kWidth}, "shift");
      load(mesh, *layer.shift(), shift);
      const nn::Vectors vectors(mesh, {layer.scale(), layer.shift()});
      tensor::InFlight in_flight(mesh);
      const nn::Pass pass(in_flight, vectors);
      const Layout layout = layout_of(Activations::kSharded);
      Tensor input = normal({kRows, kWidth}, "input").fill_(value);
      const Tensor leaf = leaf_of(mesh, input, layout);
      const Tensor output = layer.forward(leaf, pass);
      output.backward(part_of(mesh, normal({kRows, kWidth}, "upstream"), layout));
      const bool finite = at::isfinite(output.detach()).all().item<bool>() &&
                          at::isfinite(leaf.grad()).all().item<bool>();
      expect_on_all_ranks(world, finite, concat("rows of ", value, " give no finite values"));
      if (std::abs(value) > 1) continue;  // the mean is rounded, and divided by sqrt(epsilon)
      const Tensor expected = part_of(mesh, shift.expand({kRows, kWidth}), layout);
      const double error = relative_error(output.detach(), expected, shift);
      expect_on_all_ranks(world, error <= 1e-10, concat("rows of ", value, ": error ", error));
    }
  });
}

}  // namespace
}  // namespace fourfold::test
