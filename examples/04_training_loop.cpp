// A training loop of one's own. A small GPT learns a rule on x=2, y=2, data=2. Its data is
// generated while it is read, and each step has two backward passes. The example compares the
// losses with those of the library's own loop (train::Trainer) on one rank.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/model/gpt.hpp"
#include "fourfold/tensor/shard.hpp"
#include "fourfold/train/trainer.hpp"

using namespace fourfold;
using at::Tensor;
using grid::Axes;
using grid::Axis;

namespace {

constexpr std::int64_t kVocabulary = 31, kContext = 16, kSteps = 40;
constexpr std::int64_t kBatch = 8, kMicroBatch = 4;  // sequences of a step and of a pass

model::GptSpec spec() {
  model::GptSpec spec;
  spec.vocabulary = kVocabulary;
  spec.width = 32;
  spec.heads = 4;
  spec.layers = 2;
  spec.context = kContext;
  spec.execution.precision = nn::Precision::float64();  // so that grids can be compared
  return spec;
}

train::Recipe recipe() {
  train::Recipe recipe;
  recipe.model = std::make_shared<model::GptModel>(spec());
  recipe.batch = kBatch;
  recipe.micro_batch = kMicroBatch;
  recipe.learning_rate = {.largest = 1e-2, .smallest = 1e-3, .warmup = 4, .steps = kSteps};
  recipe.clip = 1;
  return recipe;
}

/// The text: each token is 3 times the one before, plus 1. A sample is a function of its number, so
/// no rank needs to know what the others read.
void read(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets) {
  std::int64_t token = sample % kVocabulary;
  for (std::int64_t i = 0; i < kContext; ++i) {
    tokens[i] = token;
    targets[i] = token = (3 * token + 1) % kVocabulary;
  }
}

/// This rank's samples of a pass, those from `first` on: split over data and z, the same on all
/// ranks along x and y.
struct Samples {
  Samples(const tensor::Mesh& mesh, std::int64_t first)
      : tokens(at::empty({kMicroBatch, kContext}, at::kLong)), targets(at::empty_like(tokens)) {
    for (std::int64_t i = 0; i < kMicroBatch; ++i) {
      read(first + i, tokens[i].data_ptr<std::int64_t>(), targets[i].data_ptr<std::int64_t>());
    }
    const grid::Layout layout({Axes{Axis::kData, Axis::kZ}, Axes()});
    tokens = tensor::shard(mesh, tokens, layout);
    targets = tensor::shard(mesh, targets, layout);
  }

  Tensor tokens;
  Tensor targets;
};

/// The loop, as every rank runs it. The losses are those of the whole batch, on all ranks alike.
std::vector<double> own_loop(comm::World& world, const grid::Grid& grid) {
  const train::Recipe what = recipe();
  const tensor::Mesh mesh(world, grid, what.overlap);
  const model::Gpt gpt(mesh, spec(), kMicroBatch);
  optim::AdamW optimizer(mesh, gpt.parameters(), what.optimizer);
  std::vector<double> result;
  for (std::int64_t number = 1; number <= kSteps; ++number) {
    tensor::InFlight in_flight(mesh);  // communication of this step that outlives a layer
    optim::AdamW::Step step = optimizer.begin_step(in_flight, kBatch / kMicroBatch);
    double loss = 0;
    for (std::int64_t first = 0; first < kBatch; first += kMicroBatch) {
      const Samples samples(mesh, (number - 1) * kBatch + first);
      const nn::Batch batch{.samples = kMicroBatch,
                            .context = kContext,
                            .first_sample = first,
                            .step = static_cast<std::uint64_t>(number)};
      step.begin_pass();
      const model::Input input{batch, {samples.tokens, samples.targets}};
      nn::Pass pass(in_flight, /*training=*/true);
      const Tensor part = gpt.loss(input, kBatch * kContext, pass);
      part.backward();
      loss += part.item<double>();
    }
    // Each rank has a part of the loss and of the square of the gradients' norm.
    std::array<double, 2> sums = {gpt.counts_loss() ? loss : 0,
                                  step.reduce_gradients().item<double>()};
    mesh.everyone().all_reduce({sums.data(), 2, schedule::DType::kF64}).wait();
    const double norm = std::sqrt(sums[1]);
    step.update(number, what.learning_rate.at(number), optim::clip_scale(norm, what.clip));
    result.push_back(sums[0]);
    if (world.rank() == 0 && (number == 1 || number % 10 == 0)) {
      std::printf("%d ranks, step %2d: loss %.4f, norm %.3f\n", world.size(),
                  static_cast<int>(number), sums[0], norm);
    }
  }
  return result;
}

/// The same by the library's own loop.
std::vector<double> trainer_losses(comm::World& world, const grid::Grid& grid) {
  const tensor::Mesh mesh(world, grid, recipe().overlap);
  train::Trainer trainer(mesh, recipe());
  std::vector<double> result;
  for (std::int64_t number = 1; number <= kSteps; ++number) {
    result.push_back(trainer.step(number, train::read_tokens(read)).loss);
  }
  return result;
}

}  // namespace

int main() {
  std::vector<double> together;
  std::vector<double> alone;
  try {
    const grid::Grid grid({.x = 2, .y = 2, .data = 2});
    comm::thread::run(grid.ranks(), [&](comm::World& world) {
      const std::vector<double> here = own_loop(world, grid);
      if (world.rank() == 0) together = here;
    });
    comm::World world = comm::self::open();
    alone = trainer_losses(world, grid::Grid());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", describe(error).c_str());
    return 1;
  }
  double difference = 0;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    difference = std::fmax(difference, std::fabs(together[i] - alone[i]));
  }
  std::printf("The largest difference of a loss from train::Trainer's on one rank is %.1e.\n",
              difference);
  const bool learned = together.back() < 0.5 * together.front();
  return learned && difference < 1e-8 ? 0 : 1;
}
