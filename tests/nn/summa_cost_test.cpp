// What SUMMA's layers send, in which order, and what they keep.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "fourfold/comm/recorder.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/nn/summa.hpp"
#include "fourfold/nn/summa_table.hpp"
#include "fourfold/tensor/memory.hpp"

#include "tests/nn/pieces.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;
using grid::Axis;
using schedule::Op;
using tensor::MemoryClass;
using tensor::Mesh;
using tensor::Overlap;

/// One layer without bias on a square, and blocks of its matrices: r × k of the input, n × k of the
/// weight, r × n of the output.
struct Blocks {
  int side = 2;
  std::int64_t r = 7;
  std::int64_t k = 3;
  std::int64_t n = 5;
  nn::Precision precision = nn::Precision::float64();

  std::int64_t element() const {
    return static_cast<std::int64_t>(c10::elementSize(precision.compute));
  }
  std::int64_t input() const { return r * k * element(); }
  std::int64_t weight() const { return n * k * element(); }
  std::int64_t output() const { return r * n * element(); }
  grid::Grid grid() const { return grid::Grid({.x = side, .y = side}); }
  nn::LinearSpec spec() const {
    return {.name = "layer", .in = side * k, .out = side * n, .bias = false};
  }
  Tensor block(const Mesh& mesh, std::int64_t columns) const {
    return at::zeros({r, columns}, at::TensorOptions(precision.compute).device(mesh.device()));
  }
};

/// A set of panels, one from or for each of p ranks: every rank sends all but its last part.
Calls panels(std::int64_t p, std::int64_t block,
             schedule::Priority priority = schedule::Priority::kUrgent) {
  const std::int64_t segment = schedule::segments_of(priority).bytes.value();
  return {p, p * block, (p - 1) * block, (p - 1) * ((block + segment - 1) / segment)};
}

/// docs/summa.md: products of a forward pass, then of both passes.
CallsBy expected_forward(const Blocks& b) {
  return {{{Op::kBroadcast, "x"}, panels(b.side, b.input())},
          {{Op::kBroadcast, "y"}, panels(b.side, b.weight())}};
}
CallsBy expected_backward(const Blocks& b) {
  CallsBy all = expected_forward(b);
  all[{Op::kReduce, "x"}] = panels(b.side, b.input());
  all[{Op::kReduce, "y"}] = panels(b.side, b.weight(), schedule::Priority::kBackground);
  return all;
}

void check_sent(comm::World& world, const Blocks& b) {
  const Mesh mesh(world, b.grid());
  tensor::InFlight in_flight(mesh);
  const nn::SummaLinear layer(mesh, b.spec(), b.precision, 7);
  const Tensor input = b.block(mesh, b.k).set_requires_grad(true);
  world.reset_counters();
  const Tensor output = layer.forward(input, nn::Pass(in_flight));
  const CallsBy forward = counted(world.counters());
  world.reset_counters();
  output.backward(b.block(mesh, b.n));
  in_flight.sums().drain();
  const CallsBy backward = counted(world.counters());
  expect_on_all_ranks(world, difference(forward, expected_forward(b)).empty(),
                      difference(forward, expected_forward(b)));
  expect_on_all_ranks(world, difference(backward, expected_backward(b)).empty(),
                      difference(backward, expected_backward(b)));
}

TEST(SummaCost, IsTheClosedFormOnEverySquare) {
  for (const int side : {2, 3, 4}) {
    on_threads(side * side, [&](comm::World& world) { check_sent(world, {.side = side}); });
  }
}

/// Blocks that go along a chain instead of a tree.
TEST(SummaCost, IsTheClosedFormOfLargeBlocks) {
  const Blocks large{.side = 3, .r = 250, .k = 150, .n = 230};
  ASSERT_GT(large.input(), schedule::kTreeLimit.value());
  on_threads(9, [&](comm::World& world) { check_sent(world, large); });
}

/// Sums of bf16 are exchanged in pieces, so that each is rounded once: of each block a rank sends
/// what is not its own piece, and its piece to each root but itself.
TEST(SummaCost, SumsOfBf16CostMore) {
  const Blocks b{.side = 2, .r = 8, .k = 4, .n = 6, .precision = nn::Precision::bf16()};
  on_threads(4, [&](comm::World& world) {
    const Mesh mesh(world, b.grid());
    tensor::InFlight in_flight(mesh);
    const nn::SummaLinear layer(mesh, b.spec(), b.precision, 7);
    const Tensor input = b.block(mesh, b.k).set_requires_grad(true);
    const Tensor output = layer.forward(input, nn::Pass(in_flight));
    world.reset_counters();
    output.backward(b.block(mesh, b.n));
    in_flight.sums().drain();
    const CallsBy backward = counted(world.counters());
    for (const auto& [axes, block] : {std::pair("x", b.input()), std::pair("y", b.weight())}) {
      const Calls expected{2, 2 * block, 2 * (block / 2) + block / 2, 3};
      expect_on_all_ranks(world, backward.at({Op::kReduce, axes}) == expected,
                          difference(backward, {}));
      expect_on_all_ranks(world, backward.at({Op::kBroadcast, axes}) == panels(2, block),
                          difference(backward, {}));
    }
  });
}

/// The products of the steps are added up in float; of one step it is the type of the result.
TEST(SummaCost, ProductsOfBf16AreAddedUpInFloat) {
  for (const int side : {1, 2}) {
    const Blocks b{.side = side, .precision = nn::Precision::bf16()};
    comm::World world = comm::recording::open(0, side * side);
    Mesh mesh(world, b.grid());
    tensor::InFlight in_flight(mesh);
    const nn::SummaLinear layer(mesh, b.spec(), b.precision, 7);
    schedule::Schedule schedule;
    const comm::Recording recording(world, schedule);
    const Tensor output = layer.forward(b.block(mesh, b.k), nn::Pass(in_flight));
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
    int products = 0;
    for (const schedule::Step& step : schedule.steps()) {
      const auto* product = std::get_if<schedule::Compute>(&step);
      if (product == nullptr || product->arithmetic.work != schedule::Work::kProduct) continue;
      ++products;
      EXPECT_EQ(product->arithmetic.bytes.value(),
                b.input() + b.weight() + (side > 1 ? 2 : 1) * b.output());
    }
    EXPECT_EQ(products, side);
  }
}

TEST(SummaCost, OfTheTable) {
  constexpr int kSide = 3;
  constexpr std::int64_t kRows = 4;  // of a rank
  constexpr std::int64_t kColumns = 2;
  on_threads(kSide * kSide, [&](comm::World& world) {
    const Mesh mesh(world, grid::Grid({.x = kSide, .y = kSide}));
    tensor::InFlight in_flight(mesh);
    const nn::SummaTable table(mesh, {.name = "wte", .vocabulary = 10, .width = kSide * kColumns},
                               nn::Precision::float64(), 7);
    const std::int64_t hidden = kRows * kColumns * 8;
    const bool diagonal = mesh.coord()[Axis::kX] == mesh.coord()[Axis::kY];
    const auto expected = [&](Op op) {
      CallsBy all = {{{op, "x"}, {1, kSide * hidden, (kSide - 1) * hidden, kSide - 1}}};
      if (diagonal) return all;
      all[{Op::kSend, "x+y"}] = {1, hidden, hidden, 1};
      all[{Op::kRecv, "x+y"}] = {1, hidden, 0, 0};
      return all;
    };
    world.reset_counters();
    const Tensor rows = table.lookup(at::zeros({kSide * kRows}, at::kLong), nn::Pass(in_flight));
    const CallsBy forward = counted(world.counters());
    world.reset_counters();
    rows.backward(at::zeros_like(rows));
    const CallsBy backward = counted(world.counters());
    expect_on_all_ranks(world, difference(forward, expected(Op::kReduceScatter)).empty(),
                        difference(forward, expected(Op::kReduceScatter)));
    expect_on_all_ranks(world, difference(backward, expected(Op::kAllGather)).empty(),
                        difference(backward, expected(Op::kAllGather)));
    // The logits are a linear layer's with the padded vocabulary: 4 of 12 rows each.
    const Blocks product{.side = kSide, .r = kRows, .k = kColumns, .n = 4};
    world.reset_counters();
    const Tensor logits = table.logits(rows.detach().set_requires_grad(true), nn::Pass(in_flight));
    const CallsBy multiplied = counted(world.counters());
    world.reset_counters();
    logits.backward(at::zeros_like(logits));
    in_flight.sums().drain();
    const CallsBy gradients = counted(world.counters());
    expect_on_all_ranks(world, difference(multiplied, expected_forward(product)).empty(),
                        difference(multiplied, expected_forward(product)));
    expect_on_all_ranks(world, difference(gradients, expected_backward(product)).empty(),
                        difference(gradients, expected_backward(product)));
  });
}

// --- order

/// "+x0" broadcasts from 0 along x, "~y1" sums for 1 along y, "?" in front is the wait for it.
std::string order_of(const schedule::Schedule& schedule) {
  std::vector<std::string> names;
  std::vector<std::string> steps;
  for (const schedule::Step& step : schedule.steps()) {
    if (const auto* issue = std::get_if<schedule::Issue>(&step)) {
      names.push_back(concat(issue->collective.op == Op::kBroadcast ? "+" : "~", issue->axes,
                             issue->collective.root));
      steps.push_back(names.back());
    } else if (const auto* wait = std::get_if<schedule::Wait>(&step)) {
      steps.push_back("?" + names.at(static_cast<std::size_t>(wait->number)));
    } else {
      steps.push_back(std::get<schedule::Compute>(step).name);
    }
  }
  return join(steps, " ");
}

struct Orders {
  std::string forward;
  std::string backward;
};

Orders orders(const Overlap& overlap) {
  const Blocks b{.side = 3};
  comm::World world = comm::recording::open(5, 9);
  Mesh mesh(world, b.grid(), overlap);
  tensor::InFlight in_flight(mesh);
  const nn::SummaLinear layer(mesh, b.spec(), b.precision, 7);
  const Tensor input = b.block(mesh, b.k).set_requires_grad(true);
  schedule::Schedule forward;
  comm::Recording of_forward(world, forward);
  const Tensor output = layer.forward(input, nn::Pass(in_flight));
  schedule::Schedule backward;
  of_forward.stop();
  const comm::Recording of_backward(world, backward);
  output.backward(b.block(mesh, b.n));
  in_flight.sums().drain();
  return {order_of(forward), order_of(backward)};
}

/// Panels of the next step are under way when a product is made, and the first of the next product
/// in the last step; sums end while the next products are made, those of dI before the next layer,
/// those of dW whenever.
TEST(SummaOrder, NextPanelsAreUnderWayBehindEachProduct) {
  const auto [forward, backward] = orders({});
  EXPECT_EQ(forward, "+x0 +y0 +x1 +y1 ?+x0 ?+y0 linear +x2 +y2 ?+x1 ?+y1 linear ?+x2 ?+y2 linear");
  EXPECT_EQ(backward,
            "+y0 +y1 ?+y0 linear dI ~x0 +y2 ?+y1 linear dI ~x1 +x0 ?+y2 ?~x0 linear dI ~x2 "
            "+x1 ?+x0 linear dW ~y0 +x2 ?+x1 linear dW ~y1 ?+x2 ?~y0 linear dW ~y2 "
            "?~x1 ?~x2 ?~y1 ?~y2");
}

TEST(SummaOrder, NothingIsUnderWayWithoutOverlap) {
  const auto [forward, backward] = orders(Overlap::none());
  EXPECT_EQ(forward, "+x0 ?+x0 +y0 ?+y0 linear +x1 ?+x1 +y1 ?+y1 linear +x2 ?+x2 +y2 ?+y2 linear");
  EXPECT_EQ(backward,
            "+y0 ?+y0 linear dI ~x0 ?~x0 +y1 ?+y1 linear dI ~x1 ?~x1 +y2 ?+y2 linear dI ~x2 ?~x2 "
            "+x0 ?+x0 linear dW ~y0 ?~y0 +x1 ?+x1 linear dW ~y1 ?~y1 +x2 ?+x2 linear dW ~y2 ?~y2");
}

// --- memory

/// From forward to backward only this rank's blocks are kept, and at most two panels of each kind
/// are there at once.
TEST(SummaMemory, LocalBlocksAreKeptAndTwoPanelsOfEach) {
  const Blocks b{.side = 4, .r = 70, .k = 30, .n = 50};
  on_threads(16, [&](comm::World& world) {
    tensor::MemoryMeter meter;
    const tensor::MemoryMeter::Counting counting(meter);
    const Mesh mesh(world, b.grid());
    tensor::InFlight in_flight(mesh);
    const nn::SummaLinear layer(mesh, b.spec(), b.precision, 7);
    layer.weight()->gradient_slot().tensor.zero_();
    const tensor::MemoryUse before = meter.now();
    Tensor input = b.block(mesh, b.k).set_requires_grad(true);
    meter.reset_peak();
    Tensor output = layer.forward(input, nn::Pass(in_flight));
    input = Tensor();
    const auto kept = meter.now()[MemoryClass::kActivations] - before[MemoryClass::kActivations];
    const std::int64_t forward = meter.peaks()[MemoryClass::kCommunication].value();
    expect_on_all_ranks(world, kept.value() == b.input() + b.output(), concat("kept ", kept));
    expect_on_all_ranks(world, meter.now()[MemoryClass::kCommunication].value() == 0, "a panel");
    expect_on_all_ranks(world, forward <= 2 * (b.input() + b.weight()), concat(forward));
    const Tensor upstream = b.block(mesh, b.n);
    meter.reset_peak();
    output.backward(upstream);
    // Of dI two panels and two summands of each size; then of dW the same and the sum, with the
    // last two summands of dI.
    const std::int64_t backward = meter.peaks()[MemoryClass::kCommunication].value();
    const std::int64_t most = std::max(2 * b.weight() + 2 * b.input() + b.input(),
                                       2 * b.input() + 3 * b.weight() + 2 * b.input());
    expect_on_all_ranks(world, backward <= most, concat(backward, " of ", most));
    in_flight.sums().drain();
    expect_on_all_ranks(world, meter.now()[MemoryClass::kCommunication].value() == 0, "a panel");
  });
}

}  // namespace
}  // namespace fourfold::test
