// Cross-entropy over a vocabulary that is split, against one process.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/loss.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/isfinite.h>
#include <gtest/gtest.h>

#include "fourfold/nn/token_table.hpp"

#include "tests/model/compare.hpp"
#include "tests/nn/pieces.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using grid::Layout;

struct LossCase {
  grid::Sizes sizes;
  std::int64_t vocabulary = 37;
  double upstream = 1;
  double deviation = 1;  // of the logits
  double tolerance = 1e-10;
  at::ScalarType type = at::kDouble;
};

constexpr std::int64_t kRows = 8;

/// What lies in the padding of the logits must not matter.
constexpr double kRubbish = 1e5;

struct SerialLoss {
  explicit SerialLoss(const LossCase& c)
      : logits(normal({kRows, c.vocabulary}, "logits", c.deviation).to(c.type).to(at::kDouble)),
        targets(some_tokens(kRows, 1, c.vocabulary, 6).flatten()) {
    // The first and the last word are targets, too.
    targets[0] = 0;
    targets[kRows - 1] = c.vocabulary - 1;
    const Tensor leaf = logits.clone().set_requires_grad(true);
    const Tensor loss = at::cross_entropy_loss(leaf, targets);
    (loss * c.upstream).backward();
    value = loss.item<double>();
    gradient = leaf.grad();
  }

  Tensor logits;
  Tensor targets;
  double value = 0;
  Tensor gradient;
};

void run(const LossCase& c) {
  const SerialLoss serial(c);
  const grid::Grid grid(c.sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    const nn::TokenTable table(mesh, {.name = "table", .vocabulary = c.vocabulary, .width = 48},
                               nn::Precision::float64(), 7);
    const Layout layout = split_over({Axis::kData, Axis::kZ}, {Axis::kY, Axis::kX});
    Tensor leaf = part_of(mesh, serial.logits, layout, kRubbish).to(c.type);
    const Tensor logits = leaf.set_requires_grad(true).clone();  // its memory is taken
    const Tensor targets =
        part_of(mesh, serial.targets, split_over(grid::Axes{Axis::kData, Axis::kZ}));
    const Tensor loss = nn::cross_entropy(mesh, table, logits, targets, kRows);
    Worst worst;
    const double total = nn::total_loss(mesh, loss).item<double>();
    worst.see(std::abs(total - serial.value) / std::abs(serial.value), "loss");
    (loss * c.upstream).backward();
    worst.see(relative_error(leaf.grad(), part_of(mesh, serial.gradient, layout), serial.gradient),
              "gradient");
    const std::int64_t valid = table.here().size();
    const Tensor padding = leaf.grad().narrow(1, valid, leaf.size(1) - valid);
    worst.see(padding.abs().sum().item<double>() == 0 ? 0 : INFINITY, "padding");
    expect_on_all_ranks(world, worst.error <= c.tolerance,
                        concat(grid, ": error ", worst.error, " of ", worst.where));
  });
}

const std::vector<grid::Sizes> kGrids = {{},
                                         {.y = 2},
                                         {.x = 2},
                                         {.x = 3, .y = 2},
                                         {.x = 2, .y = 2, .z = 2, .data = 2},
                                         {.x = 4, .y = 4}};

TEST(CrossEntropy, EqualsSerial) {
  for (const grid::Sizes& sizes : kGrids) run({.sizes = sizes});
}

TEST(CrossEntropy, IsScaledByTheUpstreamGradient) {
  for (const grid::Sizes& sizes : kGrids) run({.sizes = sizes, .upstream = -2.5});
}

TEST(CrossEntropy, RanksMayHaveNoPartOfTheVocabulary) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 8}, grid::Sizes{.y = 8}, grid::Sizes{.x = 4, .y = 2},
        grid::Sizes{.x = 2, .y = 4}, grid::Sizes{.x = 4, .y = 4}}) {
    run({.sizes = sizes, .vocabulary = 5});
    run({.sizes = sizes, .vocabulary = 1 + 1});
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  for (const grid::Sizes& sizes : kGrids) {
    run({.sizes = sizes, .deviation = 1e4});
    run({.sizes = sizes, .deviation = 1e4, .tolerance = 1e-5, .type = at::kFloat});
  }
}

TEST(CrossEntropy, InFloatAndBf16) {
  for (const grid::Sizes& sizes : kGrids) {
    run({.sizes = sizes, .tolerance = 1e-6, .type = at::kFloat});
    // The gradient is kept where the logits were: exponentials are rounded to 8 bits.
    run({.sizes = sizes, .tolerance = 1e-2, .type = at::kBFloat16});
  }
}

}  // namespace
}  // namespace fourfold::test
