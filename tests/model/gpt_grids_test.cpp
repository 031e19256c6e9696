// A whole GPT on every grid against one process: logits, loss and the gradients of all parameters.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "fourfold/comm/world.hpp"
#include "fourfold/nn/loss.hpp"

#include "tests/model/reference.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using model::GptSpec;
using nn::Activations;

constexpr double kTolerance = 1e-10;

/// Sizes that do not divide: the vocabulary by anything, the weights' rows by z.
GptSpec small_spec() {
  GptSpec spec;
  spec.vocabulary = 37;
  spec.width = 24;
  spec.heads = 8;
  spec.layers = 2;
  spec.context = 8;
  spec.dropout = 0.2;
  spec.precision = nn::Precision::float64();
  spec.seed = 11;
  return spec;
}

/// The largest error of this rank's parts, and where.
struct Worst {
  double error = 0;
  std::string where;
  void see(double found, const std::string& place) {
    if (!(found <= error)) {
      error = found;
      where = place;
    }
  }
};

Tensor own_samples(const tensor::Mesh& mesh, const Tensor& all) {
  const std::int64_t local = all.size(0) / mesh.size({Axis::kData, Axis::kZ});
  return all.narrow(0, mesh.index({Axis::kData, Axis::kZ}) * local, local).contiguous();
}

struct Case {
  grid::Sizes sizes;
  GptSpec spec;
  std::int64_t samples = 8;
  bool training = true;
};

/// The part of a shard that is not padding.
Tensor real_part(const Tensor& shard, const grid::Block& block) {
  Tensor part = shard.detach();
  for (std::size_t d = 0; d < block.ranges.size(); ++d) {
    part = part.narrow(static_cast<std::int64_t>(d), 0, block.ranges[d].size());
  }
  return part;
}

void see_padding(Worst& worst, const Tensor& shard, const grid::Block& block,
                 const std::string& name) {
  const Tensor rest = shard.detach().clone();
  real_part(rest, block).zero_();
  worst.see(rest.abs().sum().item<double>(), name + " padding");
}

grid::Block block_here(const tensor::Mesh& mesh, const nn::Parameter& parameter) {
  return parameter.layout().block(parameter.spec().shape, mesh.grid(), mesh.coord());
}

/// Checks the initial values against those of one rank, and replaces them by `weights`.
void load(Worst& worst, const tensor::Mesh& mesh, const model::Gpt& gpt, const Weights& initial,
          const Weights& weights) {
  for (const nn::ParameterPtr& parameter : gpt.parameters()) {
    const grid::Block block = block_here(mesh, *parameter);
    Tensor here = real_part(parameter->value(), block);
    const bool same = at::equal(here, block_of(initial.at(parameter->name()), block));
    worst.see(same ? 0 : INFINITY, parameter->name() + " initial value");
    here.copy_(block_of(weights.at(parameter->name()), block));
    parameter->refresh();
  }
}

/// Runs one step on the grid of the world and compares everything with the reference.
Worst compare(comm::World& world, const Case& c, const Weights& initial, const Weights& weights,
              const Tensor& tokens, const Tensor& targets, const ReferenceResult& reference) {
  const tensor::Mesh mesh(world, grid::Grid(c.sizes));
  const model::Gpt gpt(mesh, c.spec, c.samples);
  const nn::Batch batch{.samples = c.samples, .context = c.spec.context, .step = 3};
  Worst worst;
  load(worst, mesh, gpt, initial, weights);
  {
    const at::NoGradGuard no_graph;
    const Tensor logits = gpt.logits(own_samples(mesh, tokens), batch, c.training);
    const grid::Range here =
        grid::range_along(c.spec.vocabulary, {Axis::kY, Axis::kX}, mesh.grid(), mesh.coord());
    const Tensor expected = own_samples(mesh, reference.logits).flatten(0, 1);
    worst.see(relative_error(logits.narrow(1, 0, here.size()),
                             expected.narrow(1, here.begin, here.size()), reference.logits),
              "logits");
  }
  const Tensor loss = gpt.loss(own_samples(mesh, tokens), own_samples(mesh, targets), batch,
                               tokens.numel(), c.training);
  const double total = nn::total_loss(mesh, loss).item<double>();
  worst.see(std::abs(total - reference.loss) / std::abs(reference.loss), "loss");
  loss.backward();
  nn::sum_over_data(mesh, gpt.parameters());
  for (const nn::ParameterPtr& parameter : gpt.parameters()) {
    const std::string& name = parameter->name();
    const grid::Block block = block_here(mesh, *parameter);
    if (!parameter->gradient().defined()) {
      worst.see(INFINITY, name + " has no gradient");
      continue;
    }
    const Tensor& whole = reference.gradients.at(name);
    worst.see(
        relative_error(real_part(parameter->gradient(), block), block_of(whole, block), whole),
        name);
    see_padding(worst, parameter->gradient(), block, name);
    see_padding(worst, parameter->value(), block, name);
  }
  return worst;
}

void run_case(const Case& c) {
  const grid::Grid grid(c.sizes);
  const Weights initial = initial_weights(c.spec);
  const Weights weights = perturbed(initial);
  const Tensor tokens = some_tokens(c.samples, c.spec.context, c.spec.vocabulary, 1);
  const Tensor targets = some_tokens(c.samples, c.spec.context, c.spec.vocabulary, 2);
  const ReferenceResult reference = run_reference(c.spec, weights, tokens, targets, 3, c.training);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const Worst worst = compare(world, c, initial, weights, tokens, targets, reference);
    expect_on_all_ranks(world, worst.error <= kTolerance,
                        concat(grid, ": error ", worst.error, " of ", worst.where));
  });
}

class EveryGridOf8 : public testing::TestWithParam<grid::Sizes> {};

TEST_P(EveryGridOf8, ShardedEqualsSerial) {
  run_case({.sizes = GetParam(), .spec = small_spec()});
}

TEST_P(EveryGridOf8, ReplicatedEqualsSerial) {
  Case c{.sizes = GetParam(), .spec = small_spec()};
  c.spec.activations = Activations::kReplicated;
  run_case(c);
}

TEST_P(EveryGridOf8, CheckpointedEqualsSerial) {
  for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
    Case c{.sizes = GetParam(), .spec = small_spec()};
    c.spec.activations = activations;
    c.spec.checkpoint = true;
    c.spec.tied = false;
    run_case(c);
  }
}

std::string name_of(const testing::TestParamInfo<grid::Sizes>& info) {
  const grid::Sizes& s = info.param;
  return concat("x", s.x, "y", s.y, "z", s.z, "data", s.data);
}

INSTANTIATE_TEST_SUITE_P(Gpt, EveryGridOf8,
                         testing::ValuesIn(grid::factorisations(8, {Axis::kX, Axis::kY, Axis::kZ,
                                                                    Axis::kData})),
                         name_of);

TEST(GptGrids, OneRankEqualsPlainLibtorch) {
  run_case({.sizes = {}, .spec = small_spec()});
}

}  // namespace
}  // namespace fourfold::test
