// Uses that must fail, or must not fail silently.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/loss.hpp"
#include "fourfold/nn/positions.hpp"
#include "fourfold/nn/summa.hpp"
#include "fourfold/nn/token_table.hpp"
#include "fourfold/nn/vectors.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;

class Misuse : public testing::Test {
 protected:
  nn::TokenTable table(std::int64_t vocabulary, const nn::Precision& precision) const {
    return nn::TokenTable(mesh_, {.name = "wte", .vocabulary = vocabulary, .width = 4}, precision,
                          1);
  }

  comm::World world_ = comm::self::open();
  tensor::Mesh mesh_{world_, grid::Grid()};
  tensor::InFlight in_flight_{mesh_};
  nn::Pass pass_{in_flight_};
};

Tensor tokens(std::int64_t token) {
  return at::full({3}, token, at::kLong);
}

TEST_F(Misuse, ASecondBackwardPassThrows) {
  const nn::TokenTable t = table(5, nn::Precision::float64());
  const Tensor logits = at::zeros({3, 5}, at::kDouble).set_requires_grad(true);
  const Tensor loss = nn::cross_entropy(mesh_, t, at::mul(logits, 1.0), tokens(1), 3);
  loss.backward({}, true);
  EXPECT_THROW(loss.backward(), std::exception);
}

TEST_F(Misuse, TokensOutsideTheVocabularyAreRefused) {
  const nn::TokenTable t = table(5, nn::Precision::float64());
  EXPECT_THROW(t.lookup(tokens(5), pass_), ConfigError);
  EXPECT_THROW(t.lookup(tokens(-1), pass_), ConfigError);
  const Tensor logits = at::zeros({3, 5}, at::kDouble);
  EXPECT_THROW(nn::cross_entropy(mesh_, t, logits, tokens(-100), 3), ConfigError);
}

TEST_F(Misuse, ALikelyTargetKeepsItsGradientInBf16) {
  const nn::TokenTable t = table(2, nn::Precision::bf16());
  Tensor logits = at::zeros({3, 2}, at::kBFloat16);
  logits.select(1, 0).fill_(8);
  logits.set_requires_grad(true);
  nn::cross_entropy(mesh_, t, at::mul(logits, 1.0), tokens(0), 3).backward();
  const double rest = 1 / (1 + std::exp(8.0));
  EXPECT_NEAR(logits.grad()[0][0].item<double>(), -rest / 3, 0.01 * rest / 3);
  EXPECT_NEAR(logits.grad()[0][1].item<double>(), rest / 3, 0.01 * rest / 3);
}

TEST_F(Misuse, PositionsTakeAnExpandedGradient) {
  const nn::Positions positions(mesh_, "wpe", 3, 4, nn::Activations::kSharded,
                                nn::Precision::float64(), 1);
  const Tensor hidden = at::zeros({6, 4}, at::kDouble).set_requires_grad(true);
  positions.add_to(at::mul(hidden, 1.0), {.samples = 2, .context = 3}, pass_).sum().backward();
  EXPECT_DOUBLE_EQ(positions.parameter()->gradient().min().item<double>(), 2);
  EXPECT_DOUBLE_EQ(positions.parameter()->gradient().max().item<double>(), 2);
}

TEST_F(Misuse, VectorsWithOneGradientDoNotShareIt) {
  const auto vector = [&](const char* name) {
    return std::make_shared<nn::Parameter>(
        mesh_,
        nn::ParameterSpec{
            .name = name, .shape = {4}, .gathered = grid::Axis::kZ, .summed = grid::Axis::kZ},
        nn::Precision::float64(), 1);
  };
  const nn::Vectors vectors(mesh_, {vector("a"), vector("b")});
  for (int pass = 1; pass <= 2; ++pass) {
    const std::vector<Tensor> v = vectors.gather(in_flight_);
    at::add(v[0], v[1]).sum().backward();
    for (const nn::ParameterPtr& parameter : vectors.parameters()) {
      EXPECT_DOUBLE_EQ(parameter->gradient().max().item<double>(), pass) << parameter->name();
    }
  }
}

TEST_F(Misuse, ABiasThatIsNotGatheredIsRefused) {
  const nn::LinearSpec spec{.name = "fc", .in = 4, .out = 8};
  const nn::Linear linear(mesh_, spec, nn::Precision::float64(), 1);
  const nn::SummaLinear summa(mesh_, spec, nn::Precision::float64(), 1);
  const Tensor input = at::zeros({2, 4}, at::kDouble);
  for (const nn::ProductLayer* layer :
       std::initializer_list<const nn::ProductLayer*>{&linear, &summa}) {
    try {
      static_cast<void>(layer->forward(input, pass_));
      FAIL() << "accepted";
    } catch (const InvariantError& error) {
      EXPECT_EQ(std::string(error.what()),
                "fc.bias has not been gathered in this pass; call Pass::gather with the Vectors "
                "that it is one of");
    }
  }
}

TEST_F(Misuse, AGradientIsNotReadBeforeAllOfItIsThere) {
  on_threads(2, [](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.z = 2}));
    const nn::Positions positions(mesh, "wpe", 3, 4, nn::Activations::kSharded,
                                  nn::Precision::float64(), 1);
    tensor::InFlight in_flight(mesh);
    const nn::Pass pass(in_flight);
    const auto run = [&] {
      const Tensor hidden = at::zeros({6, 4}, at::kDouble).set_requires_grad(true);
      return positions.add_to(at::mul(hidden, 1.0), {.samples = 4, .context = 3}, pass).sum();
    };
    const auto largest = [&] { return positions.parameter()->gradient().max().item<double>(); };
    {
      const Tensor other = run();
      run().backward();
      std::string said;
      try {
        static_cast<void>(largest());
      } catch (const InvariantError& error) {
        said = error.what();
      }
      expect_on_all_ranks(world,
                          said ==
                              "wpe.weight: a part of the gradient waits for the backward pass "
                              "of another graph",
                          said);
    }
    run().backward();  // now it is: of two passes, with four samples each
    std::string under_way;
    try {
      static_cast<void>(largest());
    } catch (const InvariantError& error) {
      under_way = error.what();
    }
    expect_on_all_ranks(
        world,
        under_way.find("is under way; call InFlight::sums().drain() first") != std::string::npos,
        under_way);
    in_flight.sums().drain();
    expect_on_all_ranks(world, largest() == 8, "the sum of both");
  });
}

// --- parameters of one's own

using grid::Axes;
using grid::Axis;

/// What is said to a parameter of that spec on x=2, y=2, z=2, data=2; it communicates nothing.
std::string refusal(const nn::ParameterSpec& spec) {
  comm::World world = comm::recording::open(0, 16);
  const tensor::Mesh mesh(world, grid::Grid({.x = 2, .y = 2, .z = 2, .data = 2}));
  try {
    const nn::Parameter parameter(mesh, spec, nn::Precision::float64(), 1);
  } catch (const InvariantError& error) {
    const std::string said = error.what();
    return said.substr(0, said.find(" (docs/gradients.md"));
  }
  return "";
}

nn::ParameterSpec bias() {
  return {.name = "fc.bias",
          .shape = {16},
          .kept = Axis::kX,
          .gathered = {Axis::kY, Axis::kZ},
          .summed = {Axis::kY, Axis::kZ}};
}

TEST(Spec, ThoseOfTheLayersWork) {
  nn::ParameterSpec spec = bias();
  EXPECT_EQ(refusal(spec), "");
  spec.summed = Axis::kZ;  // rows that are copies along y
  EXPECT_EQ(refusal(spec), "");
  spec.kept = {Axis::kX, Axis::kY};
  spec.gathered = spec.summed = Axis::kZ;
  EXPECT_EQ(refusal(spec), "");
  spec.gathered = spec.summed = {};
  spec.replicas = {Axis::kData, Axis::kZ};
  EXPECT_EQ(refusal(spec), "");
}

TEST(Spec, AnAxisThatNobodyNamesIsRefused) {
  nn::ParameterSpec spec = bias();
  spec.gathered = spec.summed = {};
  EXPECT_EQ(refusal(spec),
            "fc.bias: what do ranks along y=2 have of it? Name y in kept, gathered, columns or "
            "replicas");
  spec = bias();
  spec.replicas = {};
  EXPECT_EQ(refusal(spec),
            "fc.bias: what do ranks along data=2 have of it? Name data in kept, gathered, columns "
            "or replicas");
}

TEST(Spec, AnAxisThatMeansTwoThingsIsRefused) {
  nn::ParameterSpec spec = bias();
  spec.replicas = {Axis::kData, Axis::kZ};
  EXPECT_EQ(refusal(spec),
            "fc.bias: z is in more than one of kept, gathered, columns and replicas");
}

TEST(Spec, GroupsThatNoLayerOfOursHasWork) {
  nn::ParameterSpec spec = bias();
  spec.kept = Axis::kY;
  spec.gathered = spec.summed = {Axis::kZ, Axis::kX};
  EXPECT_EQ(refusal(spec), "");
  spec = bias();
  spec.gathered = spec.summed = Axis::kY;
  spec.replicas = {Axis::kZ, Axis::kData};
  EXPECT_EQ(refusal(spec), "");
}

TEST(Spec, GatheringOverThreeAxesIsRefused) {
  nn::ParameterSpec spec = bias();
  spec.kept = {};
  spec.gathered = spec.summed = {Axis::kX, Axis::kY, Axis::kZ};
  EXPECT_EQ(refusal(spec), "fc.bias: it is gathered over x+y+z, and at most two axes are possible");
}

TEST(Spec, SumsThatLeaveRowsOutAreRefused) {
  nn::ParameterSpec spec = bias();
  spec.summed = {};
  EXPECT_EQ(refusal(spec),
            "fc.bias: of what is gathered over y+z the gradients are summed over all of it, or "
            "over the second of two axes, and not over none");
  spec = bias();
  spec.kept = {Axis::kX, Axis::kY};
  spec.gathered = {Axis::kData, Axis::kZ};
  spec.summed = Axis::kZ;
  spec.replicas = {};
  EXPECT_EQ(refusal(spec),
            "fc.bias: ranks along data have different rows, so its gradients must be summed over "
            "it");
}

TEST(Spec, ShapesThatAreNoneAreRefused) {
  nn::ParameterSpec spec = bias();
  spec.kept = {};
  spec.columns = Axis::kX;
  EXPECT_EQ(refusal(spec), "fc.bias: a vector has no columns to split over x");
  spec.shape = {16, 4, 2, 2};
  EXPECT_EQ(refusal(spec), "fc.bias: a parameter has one to three dimensions, not 4");
  spec.shape = {16, 0};
  EXPECT_EQ(refusal(spec), "fc.bias: a dimension of 0 elements");
  spec.name = "";
  EXPECT_EQ(refusal(spec), "a parameter without a name");
}

/// A vector that every rank along z has whole: it is gathered over nobody.
TEST(Spec, VectorsThatAreNotGatheredWork) {
  on_threads(4, [](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid({.x = 2, .z = 2}));
    const auto vector = std::make_shared<nn::Parameter>(
        mesh,
        nn::ParameterSpec{
            .name = "scale", .shape = {6}, .kept = Axis::kX, .replicas = {Axis::kData, Axis::kZ}},
        nn::Precision::float64(), 1);
    const nn::Vectors vectors(mesh, {vector});
    tensor::InFlight in_flight(mesh);
    vectors.gather(in_flight)[0].sum().backward();
    const Tensor gradient = vector->gradient();
    expect_on_all_ranks(world, gradient.numel() == 3 && gradient.min().item<double>() == 1,
                        "the gradient of its own use");
  });
}

}  // namespace
}  // namespace fourfold::test
