// SPDX-License-Identifier: Apache-2.0
#include "tests/model/compare.hpp"

#include <cmath>

#include <ATen/ops/equal.h>

#include "fourfold/comm/world.hpp"
#include "fourfold/nn/loss.hpp"

namespace fourfold::test {

using grid::Axis;

grid::Block block_here(const tensor::Mesh& mesh, const nn::Parameter& parameter) {
  return parameter.layout().block(parameter.spec().shape, mesh.grid(), mesh.coord());
}

void load(const tensor::Mesh& mesh, nn::Parameter& parameter, const Tensor& whole) {
  const grid::Block block = block_here(mesh, parameter);
  const Tensor shard = at::zeros(parameter.shard_shape(), parameter.precision().master);
  real_part(shard, block).copy_(block_of(whole, block));
  parameter.assign(shard);
}

namespace {

void see_padding(Worst& worst, const Tensor& shard, const grid::Block& block,
                 const std::string& name) {
  const Tensor rest = shard.detach().clone();
  real_part(rest, block).zero_();
  worst.see(rest.abs().sum().item<double>(), name + " padding");
}

}  // namespace

void sum_over_replicas(const tensor::Mesh& mesh, const nn::Parameters& parameters) {
  for (const nn::ParameterPtr& parameter : parameters) {
    const comm::Communicator& comm =
        mesh.comm(parameter->spec().replicas, tensor::Purpose::kGradients);
    if (comm.size() > 1) comm.all_reduce(tensor::view(parameter->gradient())).wait();
  }
}

void see_gradient(Worst& worst, const tensor::Mesh& mesh, nn::Parameter& parameter,
                  const Tensor& whole) {
  const std::string& name = parameter.name();
  if (!parameter.gradient().defined()) {
    worst.see(INFINITY, name + " has no gradient");
    return;
  }
  const grid::Block block = block_here(mesh, parameter);
  worst.see(relative_error(real_part(parameter.gradient(), block), block_of(whole, block), whole),
            name);
  see_padding(worst, parameter.gradient(), block, name);
  see_padding(worst, parameter.value(), block, name);
}

double gradient_norm(const tensor::Mesh& mesh, const nn::Parameters& parameters) {
  double squares = 0;
  for (const nn::ParameterPtr& p : parameters) {
    // Of the ranks that have the same, the first counts.
    if (p->layout().replicas(mesh.grid(), mesh.coord())[0] != mesh.world().rank()) continue;
    squares += p->gradient().to(at::kDouble).square().sum().item<double>();
  }
  if (mesh.everyone().size() > 1) {
    mesh.everyone().all_reduce({&squares, 1, schedule::DType::kF64}).wait();
  }
  return std::sqrt(squares);
}

namespace {

Tensor own_samples(const tensor::Mesh& mesh, const Tensor& all, const grid::Axes& axes) {
  const std::int64_t local = all.size(0) / mesh.size(axes);
  return all.narrow(0, mesh.index(axes) * local, local).contiguous();
}

/// Checks the initial values against those of one rank, and replaces them by `weights`.
void load_all(Worst& worst, const tensor::Mesh& mesh, const model::Part& gpt,
              const Weights& initial, const Weights& weights) {
  for (const nn::ParameterPtr& parameter : gpt.parameters()) {
    const grid::Block block = block_here(mesh, *parameter);
    const bool same = at::equal(
        real_part(parameter->value(), block),
        block_of(initial.at(parameter->name()), block).to(parameter->precision().compute));
    worst.see(same ? 0 : INFINITY, parameter->name() + " initial value");
    load(mesh, *parameter, weights.at(parameter->name()));
  }
}

struct Comparison {
  Worst worst;  // of logits and gradients
  double loss_error = 0;
  double norm_error = 0;
};

/// Runs one step on the grid of the world and compares everything with the reference.
template <class Spec>
Comparison compare(comm::World& world, const CaseOf<Spec>& c, const model::Model& model,
                   const Weights& initial, const Weights& weights, const Tensor& tokens,
                   const Tensor& targets, const ReferenceResult& reference) {
  const tensor::Mesh mesh(world, grid::Grid(c.sizes));
  const std::int64_t samples = c.samples / c.passes;
  const auto whole = model.make(mesh, samples, model.whole());
  const auto& gpt = dynamic_cast<const model::Transformer&>(*whole);
  Worst worst;
  load_all(worst, mesh, gpt, initial, weights);
  tensor::InFlight in_flight(mesh);
  double total = 0;
  for (std::int64_t pass = 0; pass < c.passes; ++pass) {
    const nn::Batch batch{
        .samples = samples, .context = c.spec.context, .first_sample = pass * samples, .step = 3};
    const auto here = [&](const Tensor& all) {
      return own_samples(mesh, all.narrow(0, pass * samples, samples), {Axis::kData, Axis::kZ});
    };
    {
      const at::NoGradGuard no_graph;
      nn::Pass reading(in_flight, c.training);
      const Tensor logits = gpt.logits(here(tokens), batch, reading);
      const grid::Range part =
          grid::range_along(c.spec.vocabulary, gpt.logit_axes(), mesh.grid(), mesh.coord());
      const Tensor all = reference.logits.narrow(0, pass * samples, samples);
      const Tensor expected = own_samples(mesh, all, gpt.loss_axes()).flatten(0, 1);
      worst.see(relative_error(logits.narrow(1, 0, part.size()),
                               expected.narrow(1, part.begin, part.size()), reference.logits),
                "logits");
    }
    nn::Pass training(in_flight, c.training);
    const Tensor loss = gpt.loss({batch, {here(tokens), here(targets)}}, tokens.numel(), training);
    total += nn::total_loss(mesh, loss, gpt.loss_axes()).item<double>();
    loss.backward();
  }
  in_flight.sums().drain();
  sum_over_replicas(mesh, gpt.parameters());
  for (const nn::ParameterPtr& parameter : gpt.parameters()) {
    see_gradient(worst, mesh, *parameter, reference.gradients.at(parameter->name()));
  }
  const double norm = gradient_norm(mesh, gpt.parameters());
  return {worst, std::abs(total / reference.loss - 1), std::abs(norm / reference.norm - 1)};
}

}  // namespace

namespace {

/// Expects what the reference, a function of (weights, tokens, targets), computes.
template <class Spec, class Reference>
void check(comm::World& world, const CaseOf<Spec>& c, const model::Model& model,
           const Reference& run) {
  const grid::Grid grid(c.sizes);
  const Weights initial = initial_weights(c.spec);
  const Weights weights = perturbed(initial);
  const Tensor tokens = some_tokens(c.samples, c.spec.context, c.spec.vocabulary, 1);
  const Tensor targets = some_tokens(c.samples, c.spec.context, c.spec.vocabulary, 2);
  const ReferenceResult reference =
      run(in_float64(weights, model.execution().precision), tokens, targets);
  const auto [worst, loss_error, norm_error] =
      compare(world, c, model, initial, weights, tokens, targets, reference);
  expect_on_all_ranks(world, worst.error <= c.tolerance,
                      concat(grid, ": error ", worst.error, " of ", worst.where));
  expect_on_all_ranks(world, loss_error <= c.loss_tolerance,
                      concat(grid, ": error ", loss_error, " of the loss"));
  expect_on_all_ranks(world, norm_error <= c.loss_tolerance,
                      concat(grid, ": error ", norm_error, " of the gradients' norm"));
}

}  // namespace

void check_case(comm::World& world, const Case& c) {
  check(world, c, model::GptModel(c.spec),
        [&](const Weights& weights, const Tensor& tokens, const Tensor& targets) {
          return run_reference(c.spec, weights, tokens, targets, 3, c.training);
        });
}

void check_case(comm::World& world, const LlamaCase& c) {
  check(world, c, model::LlamaModel(c.spec),
        [&](const Weights& weights, const Tensor& tokens, const Tensor& targets) {
          return run_reference(c.spec, weights, tokens, targets);
        });
}

void run_case(const Case& c) {
  on_threads(grid::Grid(c.sizes).ranks(), [&](comm::World& world) { check_case(world, c); });
}

void run_case(const LlamaCase& c) {
  on_threads(grid::Grid(c.sizes).ranks(), [&](comm::World& world) { check_case(world, c); });
}

}  // namespace fourfold::test
