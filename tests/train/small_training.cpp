// SPDX-License-Identifier: Apache-2.0
#include "tests/train/small_training.hpp"

#include <cmath>

#include "fourfold/base/processor.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/self/self.hpp"

namespace fourfold::test {

using Recipe = GptRecipe;
using train::StepResult;

Recipe small_recipe(bool tied, std::int64_t steps) {
  Recipe recipe;
  recipe.model.vocabulary = 37;
  recipe.model.width = 24;
  recipe.model.heads = 8;
  recipe.model.layers = 2;
  recipe.model.context = 8;
  recipe.model.dropout = 0.1;
  recipe.model.tied = tied;
  recipe.model.execution.precision = nn::Precision::float64();
  recipe.batch = 16;
  recipe.micro_batch = 8;
  recipe.learning_rate = {.largest = 1e-2, .smallest = 1e-3, .warmup = 3, .steps = steps};
  recipe.clip = 1.0;
  return recipe;
}

void read_sample(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) {
  std::int64_t token = (sample * 7 + 3) % 37;
  for (std::int64_t i = 0; i < 8; ++i) {
    tokens[i] = token;
    token = (token * 5 + (sample * i) % 3) % 37;
    targets[i] = token;
  }
}

const train::ReadSample& small_samples() {
  static const train::ReadSample kRead = train::read_tokens(read_sample);
  return kRead;
}

std::vector<StepResult> train_on(comm::World& world, const grid::Grid& grid,
                                 const train::Recipe& recipe) {
  const tensor::Mesh mesh(world, grid, recipe.overlap);
  train::Trainer trainer(mesh, recipe);
  std::vector<StepResult> results;
  for (std::int64_t i = 1; i <= recipe.learning_rate.steps; ++i) {
    results.push_back(trainer.step(i, small_samples()));
  }
  return results;
}

std::vector<StepResult> train_alone(const train::Recipe& recipe) {
  comm::World world = comm::self::open();
  return train_on(world, grid::Grid(), recipe);
}

double difference(const std::vector<StepResult>& a, const std::vector<StepResult>& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (const double ratio :
         {a[i].loss / b[i].loss, a[i].grad_norm / b[i].grad_norm, a[i].rate / b[i].rate}) {
      if (!std::isfinite(ratio)) return INFINITY;
      worst = std::max(worst, std::abs(ratio - 1));
    }
  }
  return worst;
}

std::string too_far_from_float64(const std::vector<StepResult>& rough,
                                 const std::vector<StepResult>& exact) {
  if (rough.size() != exact.size()) return "another number of steps";
  // Native products on a processor without AVX-512 round partial sums too.
  const bool native = takes_special_way(Choice::kBf16Products);
  const double loss_tolerance = native ? 0.02 : 0.005;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double norm_tolerance = i > 0 ? 0.1 : native ? 0.05 : 0.005;
    const double loss = std::abs(rough[i].loss / exact[i].loss - 1);
    const double norm = std::abs(rough[i].grad_norm / exact[i].grad_norm - 1);
    if (loss <= loss_tolerance && norm <= norm_tolerance) continue;
    return concat("step ", i + 1, ": loss ", rough[i].loss, " and norm ", rough[i].grad_norm,
                  ", in float64 ", exact[i].loss, " and ", exact[i].grad_norm);
  }
  return "";
}

}  // namespace fourfold::test
