// Uses that must fail, or must not fail silently, on one rank.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/loss.hpp"
#include "fourfold/nn/positions.hpp"
#include "fourfold/nn/token_table.hpp"
#include "fourfold/nn/vectors.hpp"

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
  EXPECT_THROW(t.lookup(tokens(5)), ConfigError);
  EXPECT_THROW(t.lookup(tokens(-1)), ConfigError);
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
  positions.add_to(at::mul(hidden, 1.0), {.samples = 2, .context = 3}).sum().backward();
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
    const std::vector<Tensor> v = vectors.gather();
    at::add(v[0], v[1]).sum().backward();
    for (const nn::ParameterPtr& parameter : vectors.parameters()) {
      EXPECT_DOUBLE_EQ(parameter->gradient().max().item<double>(), pass) << parameter->name();
    }
  }
}

}  // namespace
}  // namespace fourfold::test
