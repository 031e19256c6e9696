// Images of twice and of half the size, SiLU, and dropout of images on grids, against libtorch's
// own and against one rank.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/resample.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <gtest/gtest.h>

#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/image_window.hpp"

#include "tests/nn/trial.hpp"
#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using nn::Activations;

constexpr std::int64_t kHeight = 4;
constexpr std::int64_t kWidth = 6;
constexpr std::int64_t kRows = Trial::kSamples * kHeight * kWidth;
constexpr std::int64_t kChannels = 48;

using OnPictures = std::function<Tensor(const Tensor&)>;
using OnRows = std::function<Tensor(const tensor::Mesh&, const Tensor&)>;

struct Operation {
  Operation(const char* text, const OnPictures& picture, OnRows on_rows)
      : name(text),
        rows(std::move(on_rows)),
        input(normal({kRows, kChannels}, "input").set_requires_grad(true)),
        output(rows_of(picture(picture_of(input, kHeight, kWidth)))),
        upstream(normal(output.sizes().vec(), "upstream")) {
    output.backward(upstream);
  }
  const char* name;
  OnRows rows;
  Tensor input;
  Tensor output;
  Tensor upstream;
};

std::vector<Operation> operations() {
  std::vector<Operation> all;
  all.emplace_back(
      "enlarge",
      [](const Tensor& picture) {
        return at::upsample_nearest2d(picture, {2 * kHeight, 2 * kWidth});
      },
      [](const tensor::Mesh& mesh, const Tensor& rows) {
        return nn::enlarge(mesh, rows, kHeight, kWidth);
      });
  all.emplace_back(
      "shrink", [](const Tensor& picture) { return at::avg_pool2d(picture, 2); },
      [](const tensor::Mesh& mesh, const Tensor& rows) {
        return nn::shrink(mesh, rows, kHeight, kWidth);
      });
  all.emplace_back(
      "silu", [](const Tensor& picture) { return at::silu(picture); },
      [](const tensor::Mesh& mesh, const Tensor& rows) { return nn::silu(mesh, rows); });
  return all;
}

void see_operations(Worst& worst, const tensor::Mesh& mesh) {
  for (const Operation& operation : operations()) {
    for_both([&](bool transposed, Activations activations, const std::string& name) {
      const grid::Layout layout = image_layout(nn::channel_axes(transposed, activations));
      for (const Accuracy& accuracy : accuracies()) {
        see_trial(
            worst, mesh, accuracy,
            [&](Trial& trial) -> std::shared_ptr<void> {
              const Tensor input = trial.input(operation.input, layout);
              trial.output(operation.rows(trial.mesh(), input), operation.output,
                           operation.upstream, layout);
              return nullptr;
            },
            [](Payload&) {}, concat(operation.name, ", ", name));
      }
    });
  }
}

class ResampleOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(ResampleOnGrid, EqualsSerial) {
  expect_on_grid(GetParam(), see_operations);
}

/// An element is dropped or not, wherever it is.
TEST_P(ResampleOnGrid, DropsWhatOneRankDrops) {
  const kernels::Key key = kernels::key_of(kernels::key_of(3, "block.dropout"), 17);
  const Tensor whole = normal({2 * kRows, kChannels}, "input");
  const nn::Batch batch{.samples = Trial::kSamples, .first_sample = Trial::kSamples, .step = 17};
  Tensor expected = at::empty_like(whole);
  kernels::apply_dropout(whole, expected, {{0, 2 * kRows}, {0, kChannels}}, key, 0.3);
  expected = expected.narrow(0, kRows, kRows);
  expect_on_grid(GetParam(), [&](Worst& worst, const tensor::Mesh& mesh) {
    for_both([&](bool transposed, Activations activations, const std::string& name) {
      const grid::Axes axes = nn::channel_axes(transposed, activations);
      const Tensor input = part_of(mesh, whole.narrow(0, kRows, kRows), image_layout(axes));
      const Tensor target = part_of(mesh, expected, image_layout(axes));
      const std::int64_t samples = Trial::kSamples / mesh.size({Axis::kData, Axis::kZ});
      const int parts = samples > 1 ? 2 : 1;
      for (int part = 0; part < parts; ++part) {
        const nn::Batch some = nn::part_of(batch, part, parts);
        const auto window = nn::image_window(mesh, some, kHeight * kWidth, kChannels, axes);
        const std::int64_t rows = input.size(0) / parts;
        const Tensor here = input.narrow(0, part * rows, rows).set_requires_grad(true);
        const Tensor found = nn::dropout(mesh, here, 0.3, key, window);
        worst.see(relative_error(found, target.narrow(0, part * rows, rows), expected) * 1e10,
                  "dropout, " + name);
      }
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, ResampleOnGrid, testing::ValuesIn(image_grids()), name_of_grid);

TEST(Resample, EqualsSerialWithAllVectors) {
  in_every_way(Choice::kVectors, [](int) { expect_on_grid({}, see_operations); });
}

}  // namespace
}  // namespace fourfold::test
