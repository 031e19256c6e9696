// A training loop of one's own: a small GPT learns a rule on x=2, y=2, data=2, with data that is
// made as it is read, and the losses are those of one rank. SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/train/trainer.hpp"

using namespace fourfold;

namespace {

constexpr std::int64_t kVocabulary = 31, kSteps = 40;

train::Recipe recipe() {
  train::Recipe recipe;
  recipe.model.vocabulary = kVocabulary;
  recipe.model.width = 32;
  recipe.model.heads = 4;
  recipe.model.layers = 2;
  recipe.model.context = 16;
  recipe.model.precision = nn::Precision::float64();  // so that grids can be compared
  recipe.batch = 8;                                   // sequences of a step, over the whole grid
  recipe.micro_batch = 8;                             // all of them in one pass
  recipe.rates = {.largest = 1e-2, .smallest = 1e-3, .warmup = 4, .steps = kSteps};
  recipe.clip = 1;
  return recipe;
}

/// The text: each token is 3 times the one before, plus 1. A sample is a function of its number, so
/// no rank needs to know what the others read.
void read(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) {
  std::int64_t token = sample % kVocabulary;
  for (std::int64_t i = 0; i < recipe().model.context; ++i) {
    tokens[i] = token;
    targets[i] = token = (3 * token + 1) % kVocabulary;
  }
}

/// What every rank does. The losses are those of the whole batch, on all ranks alike.
std::vector<double> losses(comm::World& world, const grid::Grid& grid) {
  const tensor::Mesh mesh(world, grid, recipe().overlap);
  train::Trainer trainer(mesh, recipe());
  std::vector<double> result;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const train::StepResult done = trainer.step(step, read);
    result.push_back(done.loss);
    if (world.rank() == 0 && (step == 1 || step % 10 == 0)) {
      std::printf("%d ranks, step %2d: loss %.4f, norm %.3f, rate %.1e\n", world.size(),
                  static_cast<int>(step), done.loss, done.grad_norm, done.rate);
    }
  }
  trainer.settle();
  return result;
}

}  // namespace

int main() {
  std::vector<double> together;
  std::vector<double> alone;
  try {
    const grid::Grid grid({.x = 2, .y = 2, .data = 2});
    comm::thread::run(grid.ranks(), [&](comm::World& world) {
      const std::vector<double> here = losses(world, grid);
      if (world.rank() == 0) together = here;
    });
    comm::World world = comm::self::open();
    alone = losses(world, grid::Grid());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", describe(error).c_str());
    return 1;
  }
  double difference = 0;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    difference = std::fmax(difference, std::fabs(together[i] - alone[i]));
  }
  std::printf("The largest difference of a loss is %.1e.\n", difference);
  const bool learned = together.back() < 0.5 * together.front();
  return learned && difference < 1e-8 ? 0 : 1;
}
