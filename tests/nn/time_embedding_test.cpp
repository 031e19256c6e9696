// The time embedding, and the scale and shift that blocks make of it, against libtorch's own.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/time_embedding.hpp"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include "fourfold/nn/film.hpp"

#include "tests/nn/trial.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using nn::Activations;
using schedule::Op;

constexpr std::int64_t kChannels = 12;
constexpr std::int64_t kWidth = 4 * kChannels;
constexpr std::int64_t kScaled = 24;  // channels that a block scales
constexpr int kBlocks = 2;

/// The embedding, used by two blocks.
struct Serial {
  Serial() {
    const Tensor numbers = at::arange(kChannels / 2, at::kDouble);
    const Tensor angles =
        times.unsqueeze(1) * (numbers * (-2 * std::log(10000.0) / kChannels)).exp();
    const Tensor hidden =
        at::silu(at::linear(at::cat({angles.cos(), angles.sin()}, 1), weights[0], biases[0]));
    embedding = at::silu(at::linear(hidden, weights[1], biases[1]));
    Tensor sum;
    for (std::size_t i = 0; i < kBlocks; ++i) {
      films.push_back(at::linear(embedding, weights[2 + i], biases[2 + i]));
      upstream.push_back(normal(films.back().sizes().vec(), concat("upstream ", i)));
      const Tensor one = (films.back() * upstream.back()).sum();
      sum = sum.defined() ? sum + one : one;
    }
    sum.backward();
  }
  static Tensor leaf(const grid::Shape& shape, const std::string& name) {
    return normal(shape, name, 0.3).set_requires_grad(true);
  }

  Tensor times = normal({Trial::kSamples}, "times").abs() * 300;
  std::vector<Tensor> weights = {
      leaf({kWidth, kChannels}, "weight 0"), leaf({kWidth, kWidth}, "weight 1"),
      leaf({2 * kScaled, kWidth}, "weight 2"), leaf({2 * kScaled, kWidth}, "weight 3")};
  std::vector<Tensor> biases = {leaf({kWidth}, "bias 0"), leaf({kWidth}, "bias 1"),
                                leaf({2 * kScaled}, "bias 2"), leaf({2 * kScaled}, "bias 3")};
  Tensor embedding;
  std::vector<Tensor> films;
  std::vector<Tensor> upstream;
};

nn::TimeEmbeddingSpec embedding_spec() {
  return {.name = "time_embed", .channels = kChannels, .width = kWidth};
}

nn::GatheredLinearSpec film(int number, bool transposed, Activations activations) {
  return nn::film_spec({.name = concat("block.", number),
                        .width = kWidth,
                        .channels = kScaled,
                        .transposed = transposed,
                        .activations = activations});
}

struct Layers {
  Layers(const Trial& t, bool transposed, Activations activations)
      : embedding(t.mesh(), embedding_spec(), t.precision(), 7),
        first(t.mesh(), film(0, transposed, activations), t.precision(), 7),
        second(t.mesh(), film(1, transposed, activations), t.precision(), 7) {}
  const nn::GatheredLinear& block(std::size_t i) const { return i == 0 ? first : second; }

  nn::TimeEmbedding embedding;
  nn::GatheredLinear first;
  nn::GatheredLinear second;
};

std::shared_ptr<void> run(Trial& trial, const Serial& serial, bool transposed,
                          Activations activations) {
  const auto layers = std::make_shared<Layers>(trial, transposed, activations);
  const std::vector<const nn::GatheredLinear*> all = {
      &layers->embedding.first(), &layers->embedding.second(), &layers->first, &layers->second};
  for (std::size_t i = 0; i < all.size(); ++i) {
    trial.parameter(all[i]->weight(), serial.weights[i]);
    trial.parameter(all[i]->bias(), serial.biases[i]);
  }
  // Numbers of steps are exact in every type.
  const grid::Layout rows = split_over({Axis::kData, Axis::kZ});
  const Tensor times =
      trial.mesh().dry()
          ? at::empty({trial.samples()}, at::TensorOptions(at::kDouble).device(at::kMeta))
          : part_of(trial.mesh(), serial.times, rows);
  const Tensor embedding = nn::run(layers->embedding.flow(times, trial.pass(layers->embedding)));
  const grid::Layout layout = image_layout(nn::channel_axes(transposed, activations));
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const nn::GatheredLinear& block = layers->block(i);
    trial.output(nn::run(block.flow(embedding, trial.pass(block))), serial.films[i],
                 serial.upstream[i], layout, concat("output ", i));
  }
  return layers;
}

void sends(Payload& payload, bool transposed, Activations activations) {
  const tensor::Mesh& mesh = payload.mesh();
  const grid::Axes both = {Axis::kX, Axis::kY};
  const std::int64_t samples = Trial::kSamples / mesh.size({Axis::kData, Axis::kZ});
  for (const std::int64_t in : {kChannels, kWidth}) {
    const int times = in == kChannels ? 1 : 2;  // the first has no gradient of its input
    payload.add_parameter(kWidth / mesh.size(both), in, Axis::kZ, Axis::kZ, times);
    payload.add_parameter(kWidth / mesh.size(both), 1, Axis::kZ, Axis::kZ);
    payload.add(Op::kAllGather, both, samples * kWidth);
    payload.add(Op::kReduceScatter, both, samples * kWidth);
  }
  for (int i = 0; i < kBlocks; ++i) {
    payload.add_parameter(2 * kScaled / mesh.size(both), kWidth, Axis::kZ, Axis::kZ, 2);
    payload.add_parameter(2 * kScaled / mesh.size(both), 1, Axis::kZ, Axis::kZ);
    if (activations == Activations::kSharded) continue;
    const Axis a = transposed ? Axis::kY : Axis::kX;  // that the channels lie over
    const Axis b = transposed ? Axis::kX : Axis::kY;  // of the copies
    payload.add(Op::kAllGather, b, samples * 2 * kScaled / mesh.size(a));
  }
}

class TimeOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(TimeOnGrid, EqualsSerial) {
  const Serial serial;
  expect_on_grid(GetParam(), [&](Worst& worst, const tensor::Mesh& mesh) {
    for_both([&](bool transposed, Activations activations, const std::string& name) {
      for (const Accuracy& accuracy : accuracies()) {
        see_trial(
            worst, mesh, accuracy,
            [&](Trial& trial) { return run(trial, serial, transposed, activations); },
            [&](Payload& payload) { sends(payload, transposed, activations); }, name);
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, TimeOnGrid, testing::ValuesIn(image_grids()), name_of_grid);

TEST(TimeEmbedding, RefusesWhatDoesNotDivide) {
  EXPECT_EQ(nn::TimeEmbedding::misfit({.name = "time_embed", .channels = 9, .width = 36}, {}),
            "time_embed: 9 channels cannot be divided into cosines and sines; choose an even "
            "number");
  EXPECT_EQ(nn::TimeEmbedding::misfit(embedding_spec(), {.x = 5}),
            "time_embed.0: 48 outputs cannot be split over x times y = 5; choose sizes that divide "
            "them");
}

}  // namespace
}  // namespace fourfold::test
