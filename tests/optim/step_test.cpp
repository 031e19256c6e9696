// The order of a training step of one's own: right it gives the losses of one rank, and whatever
// would give others is refused with a line that says what to call.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"

#include "tests/optim/two_layers.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using optim::AdamW;
using optim::Zero;

constexpr std::int64_t kPasses = 2;

/// What a backward pass of the step does.
using Run = std::function<void(tensor::InFlight& in_flight, const TwoLayers& model,
                               const Tensor& input, double& loss)>;

void plain(tensor::InFlight& in_flight, const TwoLayers& model, const Tensor& input, double& loss) {
  const Tensor part = loss_of(model.forward(in_flight, input), input);
  part.backward();
  loss += part.item<double>();
}

/// The losses of some steps of two passes, over all ranks.
std::vector<double> losses(comm::World& world, const grid::Grid& grid, Zero zero, const Run& run) {
  const tensor::Mesh mesh(world, grid);
  const TwoLayers model(mesh);
  AdamW optimizer(mesh, model.parameters(), {.zero = zero});
  std::vector<double> result;
  for (std::int64_t number = 1; number <= 5; ++number) {
    tensor::InFlight in_flight(mesh);
    AdamW::Step step = optimizer.begin_step(in_flight, kPasses);
    std::array<double, 2> sums = {0, 0};
    for (std::int64_t pass = 0; pass < kPasses; ++pass) {
      step.begin_pass();
      run(in_flight, model, input_of(mesh, number * kPasses + pass), sums[0]);
    }
    sums[1] = step.reduce_gradients().item<double>();
    mesh.everyone().all_reduce({sums.data(), 2, schedule::DType::kF64}).wait();
    step.update(number, 0.01, optim::clip_scale(std::sqrt(sums[1]), 1));
    result.push_back(sums[0]);
  }
  for (const nn::ParameterPtr& p : model.parameters()) p->wait_for_values();
  return result;
}

void expect_losses_of_one_rank(const Run& run) {
  comm::World alone = comm::self::open();
  const std::vector<double> expected = losses(alone, grid::Grid(), Zero::kMoments, run);
  for (const grid::Sizes& sizes : {grid::Sizes{.data = 2}, grid::Sizes{.z = 2, .data = 2},
                                   grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.y = 2, .z = 2}}) {
    for (const Zero zero : {Zero::kNothing, Zero::kMoments, Zero::kGradients}) {
      const grid::Grid grid(sizes);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const std::vector<double> found = losses(world, grid, zero, run);
        for (std::size_t i = 0; i < found.size(); ++i) {
          expect_on_all_ranks(
              world, std::fabs(found[i] / expected[i] - 1) < 1e-10,
              concat(sizes, ", step ", i + 1, ": ", found[i], ", not ", expected[i]));
        }
      });
    }
  }
}

TEST(Step, GivesTheLossesOfOneRank) {
  expect_losses_of_one_rank(plain);
}

TEST(Step, ALayerMayBeUsedTwiceInAPass) {
  expect_losses_of_one_rank([](tensor::InFlight& in_flight, const TwoLayers& model,
                               const Tensor& input, double& loss) {
    const Tensor part = loss_of(model.forward(in_flight, model.forward(in_flight, input)), input);
    part.backward();
    loss += part.item<double>();
  });
}

TEST(Step, AGraphWithoutABackwardPassChangesNothing) {
  expect_losses_of_one_rank(
      [](tensor::InFlight& in_flight, const TwoLayers& model, const Tensor& input, double& loss) {
        static_cast<void>(model.forward(in_flight, input));
        plain(in_flight, model, input, loss);
      });
}

// --- misuse, on ranks where the numbers would be wrong

struct Misused {
  explicit Misused(const tensor::Mesh& where, Zero zero)
      : mesh(where),
        in_flight(where),
        model(where),
        optimizer(where, model.parameters(), {.zero = zero}) {}

  AdamW::Step begin_step(std::int64_t passes = 1) {
    return optimizer.begin_step(in_flight, passes);
  }
  Tensor loss(std::int64_t number = 1) {
    const Tensor input = input_of(mesh, number);
    return loss_of(model.forward(in_flight, input), input);
  }
  void backward(std::int64_t number = 1) { loss(number).backward(); }

  const tensor::Mesh& mesh;
  tensor::InFlight in_flight;
  TwoLayers model;
  AdamW optimizer;
};

void finish(AdamW::Step& step) {
  static_cast<void>(step.reduce_gradients());
  step.update(1, 0.01, 1);
}

/// `body` must throw what contains `line`, on every rank of several grids, with every level of
/// ZeRO.
void expect_refused(const std::string& line, const std::function<void(Misused&)>& body) {
  for (const grid::Sizes& sizes : {grid::Sizes{}, grid::Sizes{.data = 2}, grid::Sizes{.z = 2},
                                   grid::Sizes{.y = 2, .data = 2}}) {
    for (const Zero zero : {Zero::kNothing, Zero::kMoments, Zero::kGradients}) {
      const grid::Grid grid(sizes);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const tensor::Mesh mesh(world, grid);
        Misused it(mesh, zero);
        std::string said = "nothing was said";
        try {
          body(it);
        } catch (const InvariantError& error) {
          said = error.what();
        }
        expect_on_all_ranks(world, said.find(line) != std::string::npos, concat(sizes, ": ", said));
        it.in_flight.sums().drain();
      });
    }
  }
}

TEST(Step, AGradientOutsideAStepIsRefused) {
  expect_refused("a gradient outside a step; call AdamW::begin_step before the first backward pass",
                 [](Misused& it) { it.backward(); });
  expect_refused("a gradient outside a step; call AdamW::begin_step", [](Misused& it) {
    AdamW::Step step = it.begin_step();
    step.begin_pass();
    it.backward();
    finish(step);
    it.backward(2);
  });
}

TEST(Step, AGradientOutsideAPassIsRefused) {
  expect_refused("a gradient outside a pass; call begin_pass before each backward pass",
                 [](Misused& it) {
                   const AdamW::Step step = it.begin_step();
                   it.backward();
                 });
}

TEST(Step, ASecondBackwardPassNeedsABeginPass) {
  expect_refused("more gradients after this pass has completed its gradient; call begin_pass",
                 [](Misused& it) {
                   AdamW::Step step = it.begin_step(2);
                   step.begin_pass();
                   it.backward(1);
                   it.backward(2);
                 });
}

TEST(Step, MorePassesThanAnnouncedAreRefused) {
  expect_refused("begin_pass for pass 2 of a step that begin_step was told to have 1",
                 [](Misused& it) {
                   AdamW::Step step = it.begin_step();
                   step.begin_pass();
                   it.backward(1);
                   step.begin_pass();
                 });
}

TEST(Step, FewerPassesThanAnnouncedAreRefused) {
  expect_refused("reduce_gradients after 1 of the 2 passes that begin_step was told",
                 [](Misused& it) {
                   AdamW::Step step = it.begin_step(2);
                   step.begin_pass();
                   it.backward(1);
                   step.reduce_gradients();
                 });
}

TEST(Step, APassWithoutABackwardPassIsRefused) {
  expect_refused("pass 1 of 2 has not completed its gradient", [](Misused& it) {
    AdamW::Step step = it.begin_step(2);
    step.begin_pass();
    step.begin_pass();
  });
  expect_refused("has no gradient", [](Misused& it) {
    AdamW::Step step = it.begin_step(1);
    step.begin_pass();
    step.reduce_gradients();
  });
}

TEST(Step, AGraphThatStaysWithoutItsBackwardPassIsRefused) {
  expect_refused("a graph that uses it has had no backward pass; make graphs that need none under",
                 [](Misused& it) {
                   AdamW::Step step = it.begin_step(2);
                   step.begin_pass();
                   it.backward(1);
                   const Tensor validation = it.loss(3);
                   step.begin_pass();
                   it.backward(2);
                   step.reduce_gradients();
                 });
}

TEST(Step, AGraphThatGoesAfterTheBackwardPassIsRefused) {
  expect_refused("pass 1 of 2 has not completed its gradient", [](Misused& it) {
    AdamW::Step step = it.begin_step(2);
    step.begin_pass();
    {
      const Tensor validation = it.loss(3);
      it.backward(1);
    }
    step.begin_pass();
  });
}

TEST(Step, CallsOutOfOrderAreRefused) {
  const auto with_pass = [](const std::function<void(Misused&, AdamW::Step&)>& body) {
    return [body](Misused& it) {
      AdamW::Step step = it.begin_step();
      step.begin_pass();
      it.backward();
      body(it, step);
    };
  };
  expect_refused("update before reduce_gradients",
                 with_pass([](Misused&, AdamW::Step& step) { step.update(1, 0.1, 1); }));
  expect_refused("reduce_gradients for a second time", with_pass([](Misused&, AdamW::Step& step) {
                   step.reduce_gradients();
                   step.reduce_gradients();
                 }));
  expect_refused("begin_pass after reduce_gradients", with_pass([](Misused&, AdamW::Step& step) {
                   step.reduce_gradients();
                   step.begin_pass();
                 }));
  expect_refused("update of step 0: steps count from 1", with_pass([](Misused&, AdamW::Step& step) {
                   step.reduce_gradients();
                   step.update(0, 0.1, 1);
                 }));
  expect_refused("update after the step has ended", with_pass([](Misused&, AdamW::Step& step) {
                   finish(step);
                   step.update(1, 0.1, 1);
                 }));
  expect_refused("begin_step within a step: update it, or let go of it",
                 with_pass([](Misused& it, AdamW::Step&) { static_cast<void>(it.begin_step()); }));
  expect_refused("begin_step(0): a step has passes",
                 [](Misused& it) { static_cast<void>(it.begin_step(0)); });
}

/// A step that is let go of, at whatever point, leaves no trace in the next one.
TEST(Step, AStepWithoutAnUpdateLeavesNoTrace) {
  for (const grid::Sizes& sizes : {grid::Sizes{.data = 2}, grid::Sizes{.z = 2, .data = 2}}) {
    for (const Zero zero : {Zero::kNothing, Zero::kMoments, Zero::kGradients}) {
      const grid::Grid grid(sizes);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const tensor::Mesh mesh(world, grid);
        Misused it(mesh, zero);
        std::array<double, 5> squares{};
        for (std::size_t i = 0; i < squares.size(); ++i) {
          {
            AdamW::Step lost = it.begin_step(2);
            if (i > 0) lost.begin_pass();
            if (i > 1) it.backward(7);
            if (i > 2) lost.begin_pass();
            if (i > 2) it.backward(8);
            if (i > 3) static_cast<void>(lost.reduce_gradients());
          }
          AdamW::Step step = it.begin_step(1);
          step.begin_pass();
          it.backward(1);
          squares[i] = step.reduce_gradients().item<double>();
        }
        for (const double found : squares) {
          expect_on_all_ranks(world, found == squares[0],
                              concat(sizes, ": ", found, ", not ", squares[0]));
        }
      });
    }
  }
}

// --- lists of parameters

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvariantError& error) {
    return error.what();
  }
  return "nothing was said";
}

class Lists : public testing::Test {
 protected:
  std::string refusal_of(const nn::Parameters& parameters) const {
    return refusal([&] { const AdamW optimizer(mesh_, parameters, {}); });
  }

  comm::World world_ = comm::self::open();
  tensor::Mesh mesh_{world_, grid::Grid()};
};

TEST_F(Lists, NullIsRefused) {
  const nn::Linear plain(mesh_, {.name = "fc", .in = 4, .out = 4, .bias = false},
                         nn::Precision::float64(), 1);
  EXPECT_EQ(refusal_of({plain.weight(), plain.bias()}),
            "AdamW: number 2 of 2 parameters is null; a layer without a bias has none");
  EXPECT_EQ(refusal([&] { const nn::Vectors vectors(mesh_, {plain.bias()}); }),
            "Vectors: number 1 of 1 parameters is null; a layer without a bias has none");
}

TEST_F(Lists, AParameterTwiceIsRefused) {
  const TwoLayers model(mesh_);
  nn::Parameters parameters = model.parameters();
  parameters.push_back(parameters[1]);
  EXPECT_EQ(refusal_of(parameters),
            "AdamW: number 2 and number 5 of the parameters are the same, up.bias");
  EXPECT_EQ(refusal([&] {
              const AdamW optimizer(
                  mesh_, std::vector{model.parameters(), nn::Parameters{parameters[0]}}, {});
            }),
            "AdamW: number 1 and number 5 of the parameters are the same, up.weight");
}

TEST_F(Lists, TwoParametersOfOneNameAreRefused) {
  const TwoLayers model(mesh_);
  const TwoLayers other(mesh_);
  EXPECT_EQ(refusal_of({model.parameters()[0], other.parameters()[0]}),
            "AdamW: number 1 and number 2 are two parameters of one name, up.weight");
}

TEST_F(Lists, AParameterOfAnotherMeshIsRefused) {
  const tensor::Mesh other(world_, grid::Grid());
  const TwoLayers model(other);
  EXPECT_EQ(refusal_of(model.parameters()), "AdamW: up.weight is on another mesh");
  EXPECT_EQ(refusal([&] { const nn::Vectors vectors(mesh_, {model.parameters()[1]}); }),
            "Vectors: up.bias is on another mesh");
}

TEST_F(Lists, AParameterOfAnotherOptimizerIsRefused) {
  const TwoLayers model(mesh_);
  {
    const AdamW optimizer(mesh_, model.parameters(), {});
    EXPECT_EQ(refusal_of(model.parameters()), "up.weight belongs to another optimizer");
  }
  const AdamW next(mesh_, model.parameters(), {});  // the other one has let go of them
}

TEST_F(Lists, VectorsAreVectors) {
  const TwoLayers model(mesh_);
  EXPECT_EQ(refusal([&] { const nn::Vectors vectors(mesh_, {model.parameters()[0]}); }),
            "up.weight is no vector");
}

}  // namespace
}  // namespace fourfold::test
