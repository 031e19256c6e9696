// SUMMA's linear layer and table of tokens alone, against one process.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/summa.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "fourfold/base/processor.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/nn/loss.hpp"
#include "fourfold/nn/summa_table.hpp"
#include "fourfold/nn/vectors.hpp"

#include "tests/model/compare.hpp"
#include "tests/nn/pieces.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using grid::Layout;
using nn::LinearSpec;
using tensor::Mesh;
using tensor::Overlap;

constexpr double kTolerance = 1e-10;

Layout activations() {
  return split_over({Axis::kData, Axis::kZ, Axis::kY}, Axis::kX);
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
      const Tensor input = normal({rows, spec.in}, concat(number, "input")).set_requires_grad(true);
      const Tensor upstream = normal({rows, spec.out}, concat(number, "upstream"));
      const Tensor output =
          at::linear(input, weight, spec.bias ? c10::optional<Tensor>(bias) : c10::nullopt);
      output.backward(upstream);
      passes.push_back({input.detach(), upstream, output.detach(), input.grad()});
    }
  }

  Tensor weight;
  Tensor bias;
  std::vector<Pass> passes;
};

/// A layer with the weights of the serial one.
struct Layer {
  Layer(const Mesh& mesh, const LinearSpec& spec, const Serial& serial,
        const nn::Precision& precision = nn::Precision::float64())
      : linear(mesh, spec, precision, 7),
        vectors(mesh, spec.bias ? nn::Parameters{linear.bias()} : nn::Parameters{}) {
    load(mesh, *linear.weight(), serial.weight.detach());
    if (spec.bias) load(mesh, *linear.bias(), serial.bias.detach());
  }
  Tensor forward(tensor::InFlight& in_flight, const Tensor& input) const {
    return linear.forward(input, nn::Pass(in_flight, vectors));
  }

  nn::SummaLinear linear;
  nn::Vectors vectors;
};

/// Both passes on this rank; adds what it computed to `bits`.
void see_layer(Worst& worst, const Mesh& mesh, const LinearSpec& spec, const Serial& serial,
               std::vector<Tensor>* bits = nullptr) {
  const Layer layer(mesh, spec, serial);
  tensor::InFlight in_flight(mesh);
  for (const Pass& pass : serial.passes) {
    const Tensor input = leaf_of(mesh, pass.input, activations());
    const Tensor output = layer.forward(in_flight, input);
    worst.see(
        relative_error(output.detach(), part_of(mesh, pass.output, activations()), pass.output),
        "output");
    output.backward(part_of(mesh, pass.upstream, activations()));
    worst.see(relative_error(input.grad(), part_of(mesh, pass.input_gradient, activations()),
                             pass.input_gradient),
              "input gradient");
    if (bits != nullptr) bits->insert(bits->end(), {output.detach(), input.grad()});
  }
  in_flight.sums().drain();
  sum_over_replicas(mesh, layer.linear.parameters());
  see_gradient(worst, mesh, *layer.linear.weight(), serial.weight.grad());
  if (spec.bias) see_gradient(worst, mesh, *layer.linear.bias(), serial.bias.grad());
  if (bits != nullptr) bits->push_back(layer.linear.weight()->gradient());
}

/// Odd sizes of which no two are equal.
LinearSpec odd_spec(const grid::Sizes& s, bool bias = true) {
  return {.name = "layer", .in = 3 * s.x, .out = 5 * s.x, .bias = bias};
}
std::int64_t odd_rows(const grid::Sizes& s) {
  return std::int64_t{7} * s.y * s.z * s.data;
}

const std::vector<grid::Sizes> kGrids = {{},
                                         {.z = 2, .data = 2},
                                         {.x = 2, .y = 2},
                                         {.x = 3, .y = 3},
                                         {.x = 4, .y = 4},
                                         {.x = 2, .y = 2, .z = 2},
                                         {.x = 2, .y = 2, .data = 2},
                                         {.x = 2, .y = 2, .z = 3, .data = 2},
                                         {.x = 3, .y = 3, .z = 2}};

TEST(SummaLinear, EqualsSerialOnEveryGrid) {
  for (const grid::Sizes& sizes : kGrids) {
    const grid::Grid grid(sizes);
    for (const bool bias : {false, true}) {
      const LinearSpec spec = odd_spec(sizes, bias);
      const Serial serial(spec, odd_rows(sizes));
      on_threads(grid.ranks(), [&](comm::World& world) {
        const Mesh mesh(world, grid);
        Worst worst;
        see_layer(worst, mesh, spec, serial);
        expect_on_all_ranks(world, worst.error <= kTolerance,
                            concat(grid, ": error ", worst.error, " of ", worst.where));
      });
    }
  }
}

/// When panels travel changes nothing that is computed.
TEST(SummaLinear, IsBitEqualWithEveryOverlap) {
  const grid::Sizes sizes{.x = 3, .y = 3};
  const LinearSpec spec = odd_spec(sizes);
  const Serial serial(spec, odd_rows(sizes));
  on_threads(9, [&](comm::World& world) {
    std::vector<Tensor> expected;
    for (const bool panels : {false, true}) {
      for (const bool gradients : {false, true}) {
        Overlap overlap = Overlap::none();
        overlap.panels = panels;
        overlap.input_gradients = overlap.weight_gradients = gradients;
        const Mesh mesh(world, grid::Grid(sizes), overlap);
        Worst worst;
        std::vector<Tensor> bits;
        see_layer(worst, mesh, spec, serial, &bits);
        if (expected.empty()) expected = bits;
        bool same = bits.size() == expected.size();
        for (std::size_t i = 0; same && i < bits.size(); ++i)
          same = at::equal(bits[i], expected[i]);
        expect_on_all_ranks(world, same, concat("panels ", panels, ", gradients ", gradients));
      }
    }
  });
}

/// Sums of bf16 are made in float and rounded once, whatever the number of ranks. The reference is
/// in float64 and does not round its operands, either. Native products on a processor without
/// AVX-512 round partial sums too (docs/decisions/006).
TEST(SummaLinear, Bf16IsNearFloat64) {
  const double tolerance = takes_special_way(Choice::kBf16Products) ? 0.05 : 0.01;
  const LinearSpec spec{.name = "layer", .in = 96, .out = 60};
  const Serial serial(spec, 48);
  for (const grid::Sizes& sizes :
       {grid::Sizes{}, grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.x = 2, .y = 2, .z = 2},
        grid::Sizes{.x = 4, .y = 4}}) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const Mesh mesh(world, grid);
      const Layer layer(mesh, spec, serial, nn::Precision::bf16());
      tensor::InFlight in_flight(mesh);
      Worst worst;
      const auto see = [&](const Tensor& ours, const Tensor& whole, const char* what) {
        if (ours.scalar_type() != at::kBFloat16) worst.see(INFINITY, "the type");
        worst.see(relative_error(ours.to(at::kDouble), part_of(mesh, whole, activations()), whole),
                  what);
      };
      for (const Pass& pass : serial.passes) {
        const Tensor input =
            part_of(mesh, pass.input, activations()).to(at::kBFloat16).set_requires_grad(true);
        const Tensor output = layer.forward(in_flight, input);
        output.backward(part_of(mesh, pass.upstream, activations()).to(at::kBFloat16));
        see(output.detach(), pass.output, "output");
        see(input.grad(), pass.input_gradient, "input gradient");
      }
      in_flight.sums().drain();
      sum_over_replicas(mesh, layer.linear.parameters());
      see_gradient(worst, mesh, *layer.linear.weight(), serial.weight.grad());
      see_gradient(worst, mesh, *layer.linear.bias(), serial.bias.grad());
      expect_on_all_ranks(world, worst.error < tolerance,
                          concat(grid, ": error ", worst.error, " of ", worst.where));
    });
  }
}

/// The message of the ConfigError of a layer on that grid, or what happened instead.
template <class Make>
std::string refusal(const grid::Sizes& sizes, const Make& make) {
  comm::World world = comm::recording::open(0, grid::Grid(sizes).ranks());
  const Mesh mesh(world, grid::Grid(sizes));
  try {
    make(mesh);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(SummaLinear, RefusesWhatDoesNotFit) {
  const auto layer = [](std::int64_t in, std::int64_t out) {
    return [in, out](const Mesh& mesh) {
      nn::SummaLinear(mesh, {.name = "layer", .in = in, .out = out}, nn::Precision::float64(), 7);
    };
  };
  EXPECT_EQ(refusal({.x = 2, .y = 3}, layer(6, 6)),
            "SUMMA multiplies on a square of ranks: x=2 and y=3 must be equal");
  EXPECT_EQ(refusal({.x = 2, .y = 2}, layer(7, 6)),
            "layer: 7 inputs cannot be split over x=2 and y=2; choose sizes that divide it");
  EXPECT_EQ(refusal({.x = 3, .y = 3}, layer(6, 7)),
            "layer: 7 outputs cannot be split over x=3 and y=3; choose sizes that divide it");
  const auto table = [](const Mesh& mesh) {
    nn::SummaTable(mesh, {.name = "wte", .vocabulary = 5, .width = 7}, nn::Precision::float64(), 7);
  };
  EXPECT_EQ(refusal({.x = 2, .y = 2}, table),
            "wte: a width of 7 cannot be split over x=2 and y=2; choose sizes that divide it");
}

// --- the table of tokens

struct SerialTable {
  SerialTable(std::int64_t vocabulary, std::int64_t width, std::int64_t rows)
      : table(normal({vocabulary, width}, "table").set_requires_grad(true)),
        tokens(some_tokens(rows, 1, vocabulary, 4).flatten()),
        targets(some_tokens(rows, 1, vocabulary, 5).flatten()),
        mix(normal({rows, width}, "mix")) {
    targets[0] = 0;
    targets[rows - 1] = vocabulary - 1;
    const Tensor rows_of_table = at::embedding(table, tokens);
    hidden = rows_of_table.detach();
    // Both uses of a table that is tied.
    logits = at::linear(rows_of_table * mix, table);
    const Tensor loss = at::cross_entropy_loss(logits, targets);
    loss.backward();
    logits = logits.detach();
    value = loss.item<double>();
  }

  Tensor table;
  Tensor tokens;
  Tensor targets;
  Tensor mix;  // so that the gradient of the hidden state is not the table's own
  Tensor hidden;
  Tensor logits;
  double value = 0;
};

void see_table(Worst& worst, const Mesh& mesh, const SerialTable& serial) {
  const std::int64_t vocabulary = serial.table.size(0);
  const nn::SummaTable table(
      mesh, {.name = "wte", .vocabulary = vocabulary, .width = serial.table.size(1)},
      nn::Precision::float64(), 7);
  load(mesh, *table.parameter(), serial.table.detach());
  const Layout samples = split_over(Axes{Axis::kData, Axis::kZ});
  tensor::InFlight in_flight(mesh);
  const nn::Pass pass(in_flight);
  const Tensor hidden = table.lookup(part_of(mesh, serial.tokens, samples), pass);
  worst.see(
      relative_error(hidden.detach(), part_of(mesh, serial.hidden, activations()), serial.hidden),
      "hidden state");
  const Tensor logits = table.logits(hidden * part_of(mesh, serial.mix, activations()), pass);
  const Tensor real = logits.detach().narrow(1, 0, table.here().size());
  const Tensor expected = part_of(mesh, serial.logits, activations());
  worst.see(relative_error(real, expected.narrow(1, 0, table.here().size()), serial.logits),
            "logits");
  const Axes rows = {Axis::kData, Axis::kZ, Axis::kY};
  const Tensor targets = part_of(mesh, serial.targets, split_over(rows));
  const Tensor loss = nn::cross_entropy(mesh, table, logits, targets, serial.targets.numel());
  const double total = nn::total_loss(mesh, loss, rows).item<double>();
  worst.see(std::abs(total - serial.value) / std::abs(serial.value), "loss");
  loss.backward();
  in_flight.sums().drain();
  sum_over_replicas(mesh, {table.parameter()});
  see_gradient(worst, mesh, *table.parameter(), serial.table.grad());
}

TEST(SummaTable, EqualsSerialOnEveryGrid) {
  for (const grid::Sizes& sizes : kGrids) {
    const grid::Grid grid(sizes);
    // One that does not divide, and one of which some ranks have nothing.
    for (const std::int64_t vocabulary : {37, 5, 2}) {
      const SerialTable serial(vocabulary, 3 * sizes.x, odd_rows(sizes));
      on_threads(grid.ranks(), [&](comm::World& world) {
        const Mesh mesh(world, grid);
        Worst worst;
        see_table(worst, mesh, serial);
        expect_on_all_ranks(
            world, worst.error <= kTolerance,
            concat(grid, ", ", vocabulary, ": error ", worst.error, " of ", worst.where));
      });
    }
  }
}

}  // namespace
}  // namespace fourfold::test
