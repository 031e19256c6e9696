// The next token: the same on every grid, drawn as the logits say.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/generate.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "fourfold/comm/recorder.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/world.hpp"

#include "tests/model/reference.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using model::Sampling;

model::GptSpec spec_of() {
  model::GptSpec spec;
  spec.vocabulary = 37;
  spec.width = 24;
  spec.heads = 4;
  spec.layers = 2;
  spec.context = 8;
  spec.dropout = 0.5;  // must not matter
  spec.execution.activations = nn::Activations::kReplicated;
  spec.execution.precision = nn::Precision::float64();
  return spec;
}

std::vector<double> logits_on(comm::World& world, const grid::Grid& grid,
                              const std::vector<std::int64_t>& tokens, nn::ProductKind product) {
  const tensor::Mesh mesh(world, grid);
  model::GptSpec spec = spec_of();
  spec.execution.product = product;
  const bool summa = product == nn::ProductKind::kSumma;
  if (summa) spec.execution.activations = nn::Activations::kSharded;
  const model::Gpt gpt(mesh, spec, summa ? grid.size(grid::Axis::kY) : 1);
  return model::next_logits(mesh, gpt, tokens, 35);
}

TEST(Generate, LogitsAreTheReferencesOnEveryGrid) {
  for (const std::size_t length : {1, 5, 8, 11}) {
    std::vector<std::int64_t> tokens;
    for (std::size_t i = 0; i < length; ++i) {
      tokens.push_back(static_cast<std::int64_t>(i * 7 + 3) % 37);
    }
    // Only the last 8 count.
    const std::size_t count = std::min<std::size_t>(length, 8);
    Tensor input = at::empty({1, static_cast<std::int64_t>(count)}, at::kLong);
    std::copy(tokens.end() - static_cast<std::ptrdiff_t>(count), tokens.end(),
              input.data_ptr<std::int64_t>());
    const ReferenceResult reference =
        run_reference(spec_of(), initial_weights(spec_of()), input, input, 0, false);
    const Tensor expected = reference.logits.select(1, static_cast<std::int64_t>(count) - 1);
    using nn::ProductKind;
    const std::vector<std::pair<grid::Sizes, ProductKind>> cases = {
        {{}, ProductKind::k4d},
        {{.x = 2}, ProductKind::k4d},
        {{.y = 4}, ProductKind::k4d},
        {{.x = 2, .y = 2}, ProductKind::k4d},
        {{}, ProductKind::kSumma},
        {{.x = 2, .y = 2}, ProductKind::kSumma},
        {{.x = 4, .y = 4}, ProductKind::kSumma}};
    for (const auto& [sizes, product] : cases) {
      const grid::Grid grid(sizes);
      on_threads(grid.ranks(), [&](comm::World& world) {
        const std::vector<double> logits = logits_on(world, grid, tokens, product);
        double worst = logits.size() == 35 ? 0 : INFINITY;
        for (std::size_t i = 0; i < 35 && worst < 1; ++i) {
          worst = std::max(worst, std::abs(logits[i] - expected.data_ptr<double>()[i]));
        }
        expect_on_all_ranks(world, worst < 1e-10, concat(grid, ": ", worst));
      });
    }
  }
}

/// The largest difference between the logits of a text that grows, and those of the same tokens
/// read afresh each time.
double worst_difference(const tensor::Mesh& mesh, const model::Transformer& model) {
  model::Text text(mesh, model, {3, 1, 4});
  double worst = 0;
  for (std::int64_t token = 0; text.tokens().size() < 20; ++token) {
    const std::vector<double> fresh = model::next_logits(mesh, model, text.tokens(), 35);
    const std::vector<double> grown = text.next_logits(35);
    for (std::size_t i = 0; i < 35; ++i) worst = std::max(worst, std::abs(grown[i] - fresh[i]));
    text.add(token * 11 % 35);
  }
  return worst;
}

model::LlamaSpec llama_spec() {
  model::LlamaSpec spec;
  spec.vocabulary = 37;
  spec.width = 32;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.hidden = 24;
  spec.layers = 2;
  spec.context = 64;
  spec.execution.activations = nn::Activations::kReplicated;
  spec.execution.precision = nn::Precision::float64();
  return spec;
}

TEST(Generate, ATextThatGrowsHasTheLogitsOfOneThatIsReadAfresh) {
  using nn::ProductKind;
  const std::vector<std::pair<grid::Sizes, ProductKind>> cases = {
      {{}, ProductKind::k4d},
      {{.x = 2, .y = 2}, ProductKind::k4d},
      {{.y = 4}, ProductKind::k4d},
      {{.x = 2, .y = 2}, ProductKind::kSumma}};
  for (const auto& [sizes, product] : cases) {
    const grid::Grid grid(sizes);
    const bool summa = product == ProductKind::kSumma;
    const std::int64_t samples = summa ? sizes.y : 1;
    const auto activations = summa ? nn::Activations::kSharded : nn::Activations::kReplicated;
    on_threads(grid.ranks(), [&](comm::World& world) {
      const tensor::Mesh mesh(world, grid);
      model::GptSpec gpt = spec_of();  // the text becomes longer than its context
      gpt.execution.product = product;
      gpt.execution.activations = activations;
      const double of_gpt = worst_difference(mesh, model::Gpt(mesh, gpt, samples));
      expect_on_all_ranks(world, of_gpt < 1e-10, concat(grid, ", gpt: ", of_gpt));
      model::LlamaSpec llama = llama_spec();
      llama.execution.product = product;
      llama.execution.activations = activations;
      const double of_llama = worst_difference(mesh, model::Llama(mesh, llama, samples));
      expect_on_all_ranks(world, of_llama < 1e-10, concat(grid, ", llama: ", of_llama));
    });
  }
}

/// What is computed and communicated for the token that follows `length` others, when the text has
/// grown to that length.
schedule::Schedule cost_of_next(comm::World& world, const tensor::Mesh& mesh,
                                const model::Transformer& model, std::int64_t length) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 1; i < length; ++i) tokens.push_back(i * 11 % 35);
  model::Text text(mesh, model, std::move(tokens));
  static_cast<void>(text.next_logits(35));
  text.add(7);
  schedule::Schedule schedule;
  const comm::Recording recording(world, schedule);
  static_cast<void>(text.next_logits(35));
  return schedule;
}

/// How the costs of the tokens after 10 and after 1000 others differ otherwise than in attention,
/// whose flops and bytes grow with the number of tokens. Empty if they do not.
std::string unexpected_difference(comm::World& world, const tensor::Mesh& mesh,
                                  const model::Transformer& model) {
  const schedule::Schedule early = cost_of_next(world, mesh, model, 10);
  const schedule::Schedule late = cost_of_next(world, mesh, model, 1000);
  if (early.steps().size() != late.steps().size()) return "another number of steps";
  std::int64_t layers = 0;
  for (std::size_t i = 0; i < early.steps().size(); ++i) {
    const schedule::Step& a = early.steps()[i];
    const schedule::Step& b = late.steps()[i];
    const auto* before = std::get_if<schedule::Compute>(&a);
    const auto* after = std::get_if<schedule::Compute>(&b);
    if (before == nullptr || after == nullptr || before->name != "attention") {
      if (a != b) return concat(to_string(a), " against ", to_string(b));
      continue;
    }
    ++layers;
    const bool grows = after->name == before->name && after->layer == before->layer &&
                       after->arithmetic.flops.value() == 100 * before->arithmetic.flops.value() &&
                       after->arithmetic.bytes.value() == 100 * before->arithmetic.bytes.value();
    if (!grows) return concat(to_string(a), " against ", to_string(b));
  }
  return layers == model.frame().layers ? "" : concat(layers, " times attention");
}

TEST(Generate, ATokenCostsTheSameAtAnyPositionExceptForAttention) {
  for (const grid::Sizes& sizes : {grid::Sizes{}, grid::Sizes{.x = 2, .y = 2}}) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const tensor::Mesh mesh(world, grid);
      model::GptSpec gpt = spec_of();
      gpt.context = 1024;
      const std::string of_gpt = unexpected_difference(world, mesh, model::Gpt(mesh, gpt, 1));
      expect_on_all_ranks(world, of_gpt.empty(), concat(grid, ", gpt: ", of_gpt));
      const std::string of_llama =
          unexpected_difference(world, mesh, model::Llama(mesh, llama_spec(), 1));
      expect_on_all_ranks(world, of_llama.empty(), concat(grid, ", llama: ", of_llama));
    });
  }
}

TEST(Generate, PicksAsTheLogitsSay) {
  const std::vector<double> logits = {std::log(0.2), std::log(0.5), -INFINITY, std::log(0.3)};
  const auto shares = [&](const Sampling& sampling) {
    std::vector<double> counts(4);
    constexpr int kDraws = 20000;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
      counts[static_cast<std::size_t>(model::pick_token(logits, sampling, i))] += 1.0 / kDraws;
    }
    return counts;
  };
  const std::vector<double> plain = shares({});
  EXPECT_NEAR(plain[0], 0.2, 0.015);
  EXPECT_NEAR(plain[1], 0.5, 0.015);
  EXPECT_EQ(plain[2], 0);
  const std::vector<double> two = shares({.top_k = 2});
  EXPECT_EQ(two[0], 0);
  EXPECT_NEAR(two[1], 0.5 / 0.8, 0.015);
  const std::vector<double> cold = shares({.temperature = 0.5});
  EXPECT_NEAR(cold[1], 0.25 / (0.04 + 0.25 + 0.09), 0.015);
  EXPECT_NEAR(shares({.temperature = 0})[1], 1, 1e-9);
  EXPECT_EQ(model::pick_token(logits, {.seed = 5}, 9), model::pick_token(logits, {.seed = 5}, 9));
  const std::vector<double> broken = {1, NAN};
  EXPECT_THROW(model::pick_token(broken, {}, 0), Error);
  const std::vector<double> endless = {1, INFINITY};
  EXPECT_THROW(model::pick_token(endless, {}, 0), Error);
}

}  // namespace
}  // namespace fourfold::test
