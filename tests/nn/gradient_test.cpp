// Every backward pass that is written by hand against central differences, on one rank and on
// grids.
// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "fourfold/model/gpt.hpp"
#include "fourfold/model/gpt_block.hpp"
#include "fourfold/nn/checkpoint.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/loss.hpp"
#include "fourfold/nn/positions.hpp"
#include "fourfold/nn/token_table.hpp"

#include "tests/model/compare.hpp"
#include "tests/nn/pieces.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using grid::Layout;
using nn::Activations;
using nn::Spread;
using tensor::Mesh;

constexpr double kTolerance = 1e-6;
constexpr double kStep = 1e-5;
const nn::Precision kDouble = nn::Precision::float64();

/// This rank's part of what is varied, and where to find its gradient.
struct Variable {
  std::string name;
  Tensor value;
  Layout layout;
  grid::Shape shape;  // of the whole
  std::function<Tensor()> gradient;
};

/// A function of the variables. `run` makes a graph; layers that it uses belong to it.
struct Problem {
  std::vector<Variable> variables;
  std::function<Tensor(const nn::Pass&)> run;
  Tensor upstream;          // the gradient of what `run` gives
  double output_share = 1;  // 1 / the number of ranks that have the same output
};

Variable input(const Mesh& mesh, const std::string& name, const grid::Shape& shape,
               const Layout& layout) {
  const Tensor leaf = leaf_of(mesh, normal(shape, name), layout);
  return {name, leaf, layout, shape, [leaf] { return leaf.grad(); }};
}

Variable variable_of(const Mesh& mesh, const nn::ParameterPtr& parameter) {
  load(mesh, *parameter, normal(parameter->spec().shape, parameter->name()));
  return {parameter->name(), parameter->value(), parameter->layout(), parameter->spec().shape,
          [parameter] { return parameter->gradient(); }};
}

double share(const Mesh& mesh, const Layout& layout) {
  return 1.0 / static_cast<double>(layout.replicas(mesh.grid(), mesh.coord()).size());
}

void set_output(Problem& problem, const Mesh& mesh, const grid::Shape& shape,
                const Layout& layout) {
  problem.upstream = part_of(mesh, normal(shape, "upstream"), layout);
  problem.output_share = share(mesh, layout);
}

/// The sum of the ranks' values.
double sum_of_ranks(comm::World& world, double value) {
  const auto comm = world.communicator(everyone(world));
  std::array<double, 1> sum = {value};
  comm.all_reduce(comm::view(sum)).wait();
  return sum[0];
}

/// The sum over the whole output of output times upstream.
double value_of(comm::World& world, const Mesh& mesh, const Problem& problem) {
  const at::NoGradGuard no_graph;
  tensor::InFlight in_flight(mesh);
  const double here =
      at::mul(problem.run(nn::Pass(in_flight, true)), problem.upstream).sum().item<double>();
  return sum_of_ranks(world, here * problem.output_share);
}

Worst worst_of(comm::World& world, const Mesh& mesh, const Problem& problem) {
  Worst worst;
  tensor::InFlight in_flight(mesh);
  problem.run(nn::Pass(in_flight, true)).backward(problem.upstream);
  in_flight.sums().drain();
  for (const Variable& variable : problem.variables) {
    const Tensor direction =
        part_of(mesh, normal(variable.shape, variable.name + " direction"), variable.layout);
    Tensor value = variable.value.detach();
    value.add_(direction, kStep);
    const double above = value_of(world, mesh, problem);
    value.sub_(direction, 2 * kStep);
    const double below = value_of(world, mesh, problem);
    value.add_(direction, kStep);
    const double expected = (above - below) / (2 * kStep);
    const Tensor gradient = variable.gradient();
    const double here =
        gradient.defined() ? at::mul(gradient, direction).sum().item<double>() : NAN;
    const double slope = sum_of_ranks(world, here * share(mesh, variable.layout));
    worst.see(std::abs(slope - expected) / std::abs(expected), variable.name);
  }
  return worst;
}

/// Where communication is involved: the grids of two and three axes, both ways to keep activations.
const std::vector<grid::Sizes> kGrids = {{}, {.x = 2, .y = 2}, {.x = 2, .y = 2, .z = 2}};
const std::vector<Activations> kBoth = {Activations::kSharded, Activations::kReplicated};

void check(const std::function<Problem(const Mesh&)>& make,
           const std::vector<grid::Sizes>& grids = kGrids) {
  for (const grid::Sizes& sizes : grids) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const Mesh mesh(world, grid);
      const Worst worst = worst_of(world, mesh, make(mesh));
      expect_on_all_ranks(world, worst.error <= kTolerance,
                          concat(grid, ": error ", worst.error, " of ", worst.where));
    });
  }
}

Layout hidden_layout(Activations activations) {
  return activations == Activations::kSharded ? split_over({Axis::kZ, Axis::kY}, Axis::kX)
                                              : split_over(Axis::kZ, Axis::kX);
}

TEST(Gradient, Linear) {
  for (const bool transposed : {false, true}) {
    check([&](const Mesh& mesh) {
      const Axis c = transposed ? Axis::kY : Axis::kX;
      const Axis p = transposed ? Axis::kX : Axis::kY;
      const auto layer = std::make_shared<nn::Linear>(mesh,
                                                      nn::LinearSpec{.name = "layer",
                                                                     .in = 12,
                                                                     .out = 20,
                                                                     .transposed = transposed,
                                                                     .input = Spread::kColumns,
                                                                     .output = Spread::kRows},
                                                      kDouble, 7);
      const auto vectors = std::make_shared<nn::Vectors>(mesh, nn::Parameters{layer->bias()});
      Problem problem;
      problem.variables = {input(mesh, "input", {8, 12}, split_over(Axis::kZ, {c, p})),
                           variable_of(mesh, layer->weight()), variable_of(mesh, layer->bias())};
      const Tensor in = problem.variables[0].value;
      problem.run = [=](nn::Pass pass) {
        pass.gather(*vectors);
        return layer->forward(in, pass);
      };
      set_output(problem, mesh, {8, 20}, split_over({Axis::kZ, c}, p));
      return problem;
    });
  }
}

TEST(Gradient, LayerNorm) {
  for (const Activations activations : kBoth) {
    check([&](const Mesh& mesh) {
      const auto layer = std::make_shared<nn::LayerNorm>(mesh, "norm", 10, activations, kDouble, 7);
      const auto vectors =
          std::make_shared<nn::Vectors>(mesh, nn::Parameters{layer->scale(), layer->shift()});
      Problem problem;
      problem.variables = {input(mesh, "input", {8, 10}, hidden_layout(activations)),
                           variable_of(mesh, layer->scale()), variable_of(mesh, layer->shift())};
      const Tensor in = problem.variables[0].value;
      problem.run = [=](nn::Pass pass) {
        pass.gather(*vectors);
        return layer->forward(in, pass);
      };
      set_output(problem, mesh, {8, 10}, hidden_layout(activations));
      return problem;
    });
  }
}

TEST(Gradient, AttentionWithDropout) {
  for (const std::int64_t context : {5, 140}) {
    check(
        [&](const Mesh& mesh) {
          const nn::AttentionShape shape{.samples = 2,
                                         .context = context,
                                         .heads = 2,
                                         .head_size = 4,
                                         .all_heads = 2,
                                         .dropout = 0.3,
                                         .key = kernels::key_of(4, "attention")};
          Problem problem;
          const Layout whole = split_over(Axes{}, Axes{});
          problem.variables = {input(mesh, "qkv", {2 * context, 24}, whole)};
          const Tensor in = problem.variables[0].value;
          problem.run = [&mesh, in, shape](const nn::Pass&) {
            return nn::causal_attention(mesh, in, shape);
          };
          set_output(problem, mesh, {2 * context, 8}, whole);
          return problem;
        },
        {{}});
  }
}

TEST(Gradient, GeluDropoutAndResidual) {
  check(
      [&](const Mesh& mesh) {
        Problem problem;
        const Layout whole = split_over(Axes{}, Axes{});
        problem.variables = {input(mesh, "a", {9, 7}, whole), input(mesh, "b", {9, 7}, whole)};
        const Tensor a = problem.variables[0].value;
        const Tensor b = problem.variables[1].value;
        problem.run = [&mesh, a, b](const nn::Pass&) {
          const Tensor dropped = nn::dropout(mesh, nn::gelu(mesh, a), 0.4,
                                             kernels::key_of(1, "drop"), {{20, 29}, {3, 10}});
          return nn::residual(mesh, dropped, nn::gelu(mesh, b));
        };
        set_output(problem, mesh, {9, 7}, whole);
        return problem;
      },
      {{}});
}

constexpr std::int64_t kVocabulary = 11;

/// A table; the rows of this rank's samples.
std::shared_ptr<nn::TokenTable> table_on(const Mesh& mesh, Activations activations) {
  return std::make_shared<nn::TokenTable>(
      mesh,
      nn::TableSpec{
          .name = "table", .vocabulary = kVocabulary, .width = 6, .activations = activations},
      kDouble, 7);
}

Tensor tokens_on(const Mesh& mesh, int seed) {
  return part_of(mesh, some_tokens(8, 1, kVocabulary, seed).flatten(), split_over(Axes(Axis::kZ)));
}

TEST(Gradient, Lookup) {
  for (const Activations activations : kBoth) {
    check([&](const Mesh& mesh) {
      const auto table = table_on(mesh, activations);
      const Tensor tokens = tokens_on(mesh, 1);
      Problem problem;
      problem.variables = {variable_of(mesh, table->parameter())};
      problem.run = [=](const nn::Pass& pass) { return table->lookup(tokens, pass); };
      set_output(problem, mesh, {8, 6}, hidden_layout(activations));
      return problem;
    });
  }
}

TEST(Gradient, Logits) {
  for (const Activations activations : kBoth) {
    check([&](const Mesh& mesh) {
      const auto table = table_on(mesh, activations);
      Problem problem;
      problem.variables = {input(mesh, "hidden", {8, 6}, hidden_layout(activations)),
                           variable_of(mesh, table->parameter())};
      const Tensor hidden = problem.variables[0].value;
      problem.run = [=](const nn::Pass& pass) { return table->logits(hidden, pass); };
      set_output(problem, mesh, {8, kVocabulary}, split_over(Axis::kZ, {Axis::kY, Axis::kX}));
      return problem;
    });
  }
}

/// Both uses of one table, and the loss: its gradient is reduced after the second.
TEST(Gradient, TiedTableAndLoss) {
  for (const Activations activations : kBoth) {
    check([&](const Mesh& mesh) {
      const auto table = table_on(mesh, activations);
      const Tensor tokens = tokens_on(mesh, 1);
      const Tensor targets = tokens_on(mesh, 2);
      Problem problem;
      problem.variables = {variable_of(mesh, table->parameter())};
      problem.run = [&mesh, table, tokens, targets](const nn::Pass& pass) {
        const Tensor hidden = nn::gelu(mesh, table->lookup(tokens, pass));
        return nn::cross_entropy(mesh, *table, table->logits(hidden, pass), targets, 8);
      };
      problem.upstream = at::full({}, 1.7, at::kDouble);
      problem.output_share = 1.0 / mesh.size({Axis::kX, Axis::kY});
      return problem;
    });
  }
}

TEST(Gradient, CrossEntropy) {
  check([&](const Mesh& mesh) {
    const auto table = table_on(mesh, Activations::kSharded);
    const Tensor targets = tokens_on(mesh, 2);
    Problem problem;
    problem.variables = {
        input(mesh, "logits", {8, kVocabulary}, split_over(Axis::kZ, {Axis::kY, Axis::kX}))};
    const Tensor logits = problem.variables[0].value;
    problem.run = [&mesh, table, targets, logits](const nn::Pass&) {
      return nn::cross_entropy(mesh, *table, logits.clone(), targets, 8);
    };
    problem.upstream = at::full({}, -0.6, at::kDouble);
    problem.output_share = 1.0 / mesh.size({Axis::kX, Axis::kY});
    return problem;
  });
}

TEST(Gradient, Positions) {
  for (const Activations activations : kBoth) {
    check([&](const Mesh& mesh) {
      const auto layer =
          std::make_shared<nn::Positions>(mesh, "positions", 7, 6, activations, kDouble, 7);
      // Ranks along y begin within a sample, and one position is not used.
      const nn::Batch batch{.samples = 3 * mesh.size(Axis::kZ), .context = 6};
      const grid::Shape shape = {batch.samples * batch.context, 6};
      Problem problem;
      problem.variables = {input(mesh, "hidden", shape, hidden_layout(activations)),
                           variable_of(mesh, layer->parameter())};
      const Tensor hidden = problem.variables[0].value;
      problem.run = [=](const nn::Pass& pass) {
        return layer->add_to(hidden.clone(), batch, pass);
      };
      set_output(problem, mesh, shape, hidden_layout(activations));
      return problem;
    });
  }
}

/// Vectors of both kinds of groups, in a sum that differs from rank to rank where theirs are
/// summed.
TEST(Gradient, Vectors) {
  check([&](const Mesh& mesh) {
    nn::Parameters parameters;
    std::vector<Tensor> factors;
    for (const std::int64_t size : {10, 6, 14}) {
      const nn::ParameterSpec spec{.name = concat("vector ", size),
                                   .shape = {size},
                                   .kept = Axis::kX,
                                   .gathered = {Axis::kY, Axis::kZ},
                                   .summed = {Axis::kY, Axis::kZ}};
      parameters.push_back(std::make_shared<nn::Parameter>(mesh, spec, kDouble, 7));
      const std::string name = concat("factor ", size, " of ", mesh.world().rank());
      factors.push_back(normal({parameters.back()->rows()}, name));
    }
    const auto vectors = std::make_shared<nn::Vectors>(mesh, parameters);
    Problem problem;
    for (const auto& parameter : parameters) {
      problem.variables.push_back(variable_of(mesh, parameter));
    }
    problem.run = [=](const nn::Pass& pass) {
      const std::vector<Tensor> v = vectors->gather(pass.in_flight());
      Tensor sum = at::zeros({}, at::kDouble);
      for (std::size_t i = 0; i < v.size(); ++i) {
        sum = at::add(sum, at::mul(at::mul(v[i], v[i]), factors[i]).sum());
      }
      return sum;
    };
    problem.upstream = at::full({}, 1, at::kDouble);
    return problem;
  });
}

/// A whole block with dropout, plain and checkpointed.
TEST(Gradient, Block) {
  for (const Activations activations : kBoth) {
    for (const bool checkpointed : {false, true}) {
      check([&](const Mesh& mesh) {
        model::GptSpec spec;
        spec.width = 8;
        spec.heads = 4;
        spec.layers = 1;
        spec.context = 4;
        spec.dropout = 0.2;
        spec.execution.activations = activations;
        spec.execution.checkpoint = checkpointed;
        spec.execution.precision = kDouble;
        const auto block = std::make_shared<model::GptBlock>(mesh, spec, 0, nn::HeadSplit::kHeads);
        const nn::Batch batch{.samples = 2, .context = 4, .step = 5};
        Problem problem;
        problem.variables = {input(mesh, "hidden", {8, 8}, hidden_layout(activations))};
        for (const auto& parameter : block->parameters()) {
          problem.variables.push_back(variable_of(mesh, parameter));
        }
        const Tensor hidden = problem.variables[0].value;
        problem.run = [=](nn::Pass pass) {
          if (checkpointed) return block->checkpointed({hidden}, {batch}, pass)[0];
          pass.gather(block->bundle());
          return nn::run(block->flow(hidden, batch, pass));
        };
        set_output(problem, mesh, {8, 8}, hidden_layout(activations));
        return problem;
      });
    }
  }
}

}  // namespace
}  // namespace fourfold::test
