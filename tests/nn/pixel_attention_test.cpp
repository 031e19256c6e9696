// Attention over pixels between its two convolutions, against a plain softmax of all scores in
// libtorch.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/pixel_attention.hpp"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include "tests/nn/trial.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using nn::Activations;
using nn::PixelAttentionSpec;
using nn::Spread;
using schedule::Op;

constexpr std::int64_t kHeight = 3;
constexpr std::int64_t kWidth = 5;
constexpr std::int64_t kPixels = kHeight * kWidth;
constexpr std::int64_t kRows = Trial::kSamples * kPixels;
constexpr std::int64_t kChannels = 48;

Tensor attend(const Tensor& qkv, std::int64_t samples, std::int64_t heads) {
  const Tensor parts =
      qkv.view({samples, -1, heads, 3, qkv.size(1) / 3 / heads}).permute({3, 0, 2, 1, 4});
  const Tensor scores = at::matmul(parts[0], parts[1].transpose(-1, -2)) /
                        std::sqrt(static_cast<double>(parts.size(4)));
  return at::matmul(at::softmax(scores, -1), parts[2])
      .permute({0, 2, 1, 3})
      .reshape({qkv.size(0), -1});
}

struct Serial {
  explicit Serial(std::int64_t count)
      : heads(count),
        output(
            at::linear(attend(at::linear(input, qkv.flatten(1), qkv_bias), Trial::kSamples, heads),
                       proj.flatten(1), proj_bias)),
        upstream(normal({kRows, kChannels}, "upstream")) {
    output.backward(upstream);
  }
  static Tensor leaf(const grid::Shape& shape, const std::string& name, double deviation) {
    return normal(shape, name, deviation).set_requires_grad(true);
  }

  std::int64_t heads;
  Tensor input = leaf({kRows, kChannels}, "input", 1);
  Tensor qkv = leaf({3 * kChannels, 1, kChannels}, "qkv", 0.2);
  Tensor qkv_bias = leaf({3 * kChannels}, "qkv bias", 0.2);
  Tensor proj = leaf({kChannels, 1, kChannels}, "proj", 0.2);
  Tensor proj_bias = leaf({kChannels}, "proj bias", 0.2);
  Tensor output;
  Tensor upstream;
};

grid::Sizes sizes_of(const tensor::Mesh& mesh) {
  return {.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)};
}

struct Layers {
  Layers(const Trial& t, const PixelAttentionSpec& spec, Activations activations)
      : attention(spec),
        qkv(t.mesh(), conv(t.mesh(), spec, activations, true), t.precision(), 7),
        proj(t.mesh(), conv(t.mesh(), spec, activations, false), t.precision(), 7) {}
  static nn::ConvSpec conv(const tensor::Mesh& mesh, const PixelAttentionSpec& spec,
                           Activations activations, bool first) {
    const Spread between = nn::pixel_attention_spread(spec, sizes_of(mesh));
    const Spread outside =
        activations == Activations::kSharded ? Spread::kColumns : Spread::kCopies;
    const std::string name = first ? "attention.qkv" : "attention.proj_out";
    return {.name = name,
            .terms = {{name + ".weight", kChannels, {.height = kHeight, .width = kWidth}, 0}},
            .out = (first ? 3 : 1) * kChannels,
            .transposed = first == spec.transposed,
            .input = first ? outside : between,
            .output = first ? between : outside};
  }

  PixelAttentionSpec attention;
  nn::Conv qkv;
  nn::Conv proj;
};

std::shared_ptr<void> run(Trial& trial, const Serial& serial, const PixelAttentionSpec& spec,
                          Activations activations) {
  const auto layers = std::make_shared<Layers>(trial, spec, activations);
  trial.parameter(layers->qkv.weights_of_terms()[0], serial.qkv);
  trial.parameter(layers->qkv.bias(), serial.qkv_bias);
  trial.parameter(layers->proj.weights_of_terms()[0], serial.proj);
  trial.parameter(layers->proj.bias(), serial.proj_bias);
  const grid::Layout layout = image_layout(nn::channel_axes(spec.transposed, activations));
  const Tensor qkv =
      nn::run(layers->qkv.flow({trial.input(serial.input, layout)}, trial.pass(layers->qkv)));
  const Tensor mixed = nn::pixel_attention(trial.mesh(), qkv, layers->attention, trial.samples(),
                                           layers->attention.name);
  trial.output(nn::run(layers->proj.flow({mixed}, trial.pass(layers->proj))), serial.output,
               serial.upstream, layout);
  return layers;
}

/// docs/communication.md: M rows of c channels, split over (a, b) before and after.
void sends(Payload& payload, const PixelAttentionSpec& spec, Activations activations) {
  const tensor::Mesh& mesh = payload.mesh();
  const Axis a = spec.transposed ? Axis::kY : Axis::kX;
  const Axis b = spec.transposed ? Axis::kX : Axis::kY;
  const std::int64_t c = kChannels;
  const std::int64_t rows = kRows / mesh.size({Axis::kData, Axis::kZ});
  const bool columns = spec.heads % mesh.size({a, b}) == 0;
  const bool sharded = activations == Activations::kSharded;
  const auto bias = [&](std::int64_t length, Axis p, Axis q, bool split) {
    if (split) return payload.add_parameter(length / mesh.size({p, q}), 1, Axis::kZ, Axis::kZ);
    payload.add_parameter(length / mesh.size(p), 1, {q, Axis::kZ}, Axis::kZ);
  };
  payload.add_parameter(3 * c / mesh.size(b), c / mesh.size(a), Axis::kZ, Axis::kZ, 2);
  payload.add_parameter(c / mesh.size(a), c / mesh.size(b), Axis::kZ, Axis::kZ, 2);
  bias(3 * c, b, a, columns);
  bias(c, a, b, sharded);
  if (sharded) {  // the input of the first and the output of the second
    payload.add(Op::kAllGather, b, 2 * rows * c / mesh.size(a));
    payload.add(Op::kReduceScatter, b, rows * c / mesh.size(a));
    payload.add(Op::kReduceScatter, b, rows * c / mesh.size(a));
    payload.add(Op::kAllGather, b, rows * c / mesh.size(a));
  } else {
    payload.add(Op::kAllReduce, b, 2 * rows * c / mesh.size(a));
  }
  if (columns) {
    payload.add(Op::kReduceScatter, a, rows * 3 * c / mesh.size(b));
    payload.add(Op::kAllGather, a, rows * 3 * c / mesh.size(b));
    payload.add(Op::kAllGather, a, 2 * rows * c / mesh.size(b));
    payload.add(Op::kReduceScatter, a, rows * c / mesh.size(b));
  } else {
    payload.add(Op::kAllReduce, a, rows * 3 * c / mesh.size(b));
    payload.add(Op::kAllReduce, a, rows * c / mesh.size(b));
  }
}

class PixelsOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(PixelsOnGrid, EqualSerial) {
  std::vector<Serial> cases;
  for (const std::int64_t heads : {2, 6, 24}) cases.emplace_back(heads);
  expect_on_grid(GetParam(), [&](Worst& worst, const tensor::Mesh& mesh) {
    for (const Serial& serial : cases) {
      for_both([&](bool transposed, Activations activations, const std::string& name) {
        const PixelAttentionSpec spec{.name = "attention",
                                      .heads = serial.heads,
                                      .channels = kChannels,
                                      .transposed = transposed};
        const bool fits = serial.heads % mesh.size(transposed ? Axis::kX : Axis::kY) == 0;
        const bool taken = nn::pixel_attention_misfit(spec, sizes_of(mesh)).empty();
        if (fits != taken) worst.see(INFINITY, "a misfit");
        if (!fits) return;
        for (const Accuracy& accuracy : accuracies()) {
          see_trial(
              worst, mesh, accuracy,
              [&](Trial& trial) { return run(trial, serial, spec, activations); },
              [&](Payload& payload) { sends(payload, spec, activations); },
              concat(serial.heads, " heads, ", name));
        }
      });
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, PixelsOnGrid, testing::ValuesIn(image_grids()), name_of_grid);

/// So many pixels that queries are computed in several blocks.
TEST(PixelAttention, EqualsPlainSoftmaxInManyBlocks) {
  constexpr std::int64_t kMany = 300;
  constexpr std::int64_t kTwo = 2;
  on_threads(1, [](comm::World& world) {
    const tensor::Mesh mesh(world, grid::Grid());
    const PixelAttentionSpec spec{.name = "attention", .heads = 3, .channels = 24};
    const Tensor qkv = normal({kTwo * kMany, 72}, "qkv").set_requires_grad(true);
    const Tensor upstream = normal({kTwo * kMany, 24}, "upstream");
    const Tensor expected = attend(qkv, kTwo, 3);
    expected.backward(upstream);
    const Tensor here = qkv.detach().clone().set_requires_grad(true);
    const Tensor output = nn::pixel_attention(mesh, here, spec, kTwo);
    output.backward(upstream);
    EXPECT_LE(relative_error(output.detach(), expected.detach(), expected.detach()), 1e-12);
    EXPECT_LE(relative_error(here.grad(), qkv.grad(), qkv.grad()), 1e-12);
  });
}

TEST(PixelAttention, SaysWhatWouldWork) {
  const PixelAttentionSpec spec{.name = "attention", .heads = 6, .channels = 48};
  EXPECT_EQ(nn::pixel_attention_misfit(spec, {.x = 2, .y = 4}),
            "attention: 6 heads cannot be split over y = 4; choose a size of y that divides them "
            "(1, 2, 3, 6)");
  EXPECT_EQ(nn::pixel_attention_misfit(spec, {.x = 4, .y = 2}), "");
  EXPECT_EQ(nn::pixel_attention_misfit({.name = "attention", .heads = 5, .channels = 48}, {}),
            "attention: 48 channels cannot be divided into 5 heads; choose model.heads that "
            "divides them");
}

}  // namespace
}  // namespace fourfold::test
