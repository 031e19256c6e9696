// The way of a gradient from the uses of a parameter to its optimizer.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/gradient_sink.hpp"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fourfold/nn/parameter.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using grid::Axis;
using tensor::Mesh;

/// Writes down what it is told, and provides memory of its own.
class Listener final : public nn::GradientSink {
 public:
  void complete(nn::Parameter& parameter, bool last) override {
    told.push_back(concat(parameter.name(), last ? " last" : ""));
  }
  void provide_memory(nn::Parameter& parameter) override {
    told.push_back("memory");
    home = at::zeros(parameter.shard_shape(), at::kDouble);
    parameter.move_gradient_to(home);
  }

  std::vector<std::string> told;
  Tensor home;
};

using Told = std::vector<std::string>;

nn::ParameterPtr matrix(const Mesh& mesh) {
  return std::make_shared<nn::Parameter>(
      mesh,
      nn::ParameterSpec{
          .name = "w", .shape = {6, 2}, .gathered = Axis::kZ, .summed = Axis::kZ, .deviation = 1},
      nn::Precision::float64(), 1);
}

void add_ones(nn::Parameter::Use& use) {
  const nn::Parameter::Slot slot = use.slot(at::kDouble);
  if (slot.into == kernels::Into::kNew) slot.tensor.zero_();
  slot.tensor.add_(1);
}

/// Two passes of a step: one with two uses, one with a use that is reduced by its layer.
void check_two_passes(comm::World& world, int ranks) {
  const Mesh mesh(world, grid::Grid({.z = ranks}));
  tensor::InFlight in_flight(mesh);
  const nn::ParameterPtr w = matrix(mesh);
  Listener sink;
  const auto expect = [&](const Told& told, const char* when) {
    expect_on_all_ranks(world, sink.told == told, concat(when, ": ", join(sink.told, ", ")));
  };
  w->collector().adopt(sink);
  w->collector().begin_step(2);
  w->collector().begin_pass();
  const auto first = w->use(in_flight);
  const auto second = w->use(in_flight);
  add_ones(*first);
  first->end();
  in_flight.sums().drain();
  // With several ranks the uses are added up elsewhere, and the gradient needs memory later.
  expect(ranks == 1 ? Told{"memory"} : Told{}, "after the first of two uses");
  add_ones(*second);
  second->end();
  in_flight.sums().drain();
  expect({"memory", "w"}, "after the last use of the first pass");

  w->collector().begin_pass();
  const auto ending = w->use(in_flight)->ending();
  expect({"memory", "w"}, "while the part is under way");
  ending(at::ones(w->shard_shape(), at::kDouble));
  expect({"memory", "w", "w last"}, "after the last pass");
  w->collector().check_passes_done();
  const bool right = sink.home.sub(2 * ranks + 1).abs().max().item<double>() == 0 &&
                     w->gradient().is_same(sink.home);
  expect_on_all_ranks(world, right, "all parts are in the memory of the sink");

  w->collector().end_step();
  w->drop_gradient();
  w->collector().release();
  w->accumulate(at::ones(w->shard_shape(), at::kDouble));
  expect({"memory", "w", "w last"}, "after the sink has let go");
  expect_on_all_ranks(world, !w->gradient().is_same(sink.home), "the memory is its own");
}

TEST(GradientSink, IsToldOnceAPass) {
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    on_threads(ranks, [&](comm::World& world) { check_two_passes(world, ranks); });
  }
}

TEST(GradientSink, AGraphMayOutliveItsModel) {
  on_threads(2, [](comm::World& world) {
    const Mesh mesh(world, grid::Grid({.z = 2}));
    tensor::InFlight in_flight(mesh);
    std::shared_ptr<nn::Parameter::Use> use;
    std::weak_ptr<nn::Parameter> w;
    {
      const nn::ParameterPtr parameter = matrix(mesh);
      w = parameter;
      use = parameter->use(in_flight);
    }
    expect_on_all_ranks(world, !w.expired(), "the use keeps the parameter");
    add_ones(*use);
    use->end();
    use.reset();
    expect_on_all_ranks(world, !w.expired(), "the sum under way keeps the parameter");
    in_flight.sums().drain();
    expect_on_all_ranks(world, w.expired(), "nothing else does");
  });
}

}  // namespace
}  // namespace fourfold::test
