// What ranks send against the closed form; what runs behind what; dry runs.
// SPDX-License-Identifier: Apache-2.0
#include "matrix/traffic.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "fourfold/comm/recorder.hpp"
#include "fourfold/comm/recording/recording.hpp"

#include "tests/examples/matrix/support.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using matrix::across;
using matrix::Activations;
using matrix::Elementwise;
using matrix::Extent;
using matrix::Part;
using matrix::Sent;
using matrix::Vector;
using matrix::Weight;
using schedule::Traffic;
using tensor::Mesh;

Traffic sent_by(comm::World& world) {
  Traffic all;
  for (const auto& [key, count] : world.counters()) all += count.wire;
  world.reset_counters();
  return all;
}

/// Which gradients a pass asks for.
struct Asked {
  bool a = true;
  bool b = true;
};

/// What a function really sends, operands being zero.
template <class A, class B, class Op>
Sent measured(const Mesh& mesh, const grid::Shape& a_shape, const grid::Shape& b_shape,
              const Op& op, Asked asked = {}, at::ScalarType type = at::kDouble) {
  const A a = A::zeros(mesh, a_shape, type);
  const B b = B::zeros(mesh, b_shape, type);
  a.local().set_requires_grad(asked.a);
  b.local().set_requires_grad(asked.b);
  mesh.world().reset_counters();
  const auto c = op(a, b);
  const Traffic forward = sent_by(mesh.world());
  c.local().backward(at::zeros_like(c.local()));
  return {forward, sent_by(mesh.world())};
}

std::string to_string(const Sent& sent) {
  return concat(sent.forward.bytes.value(), " bytes in ", sent.forward.messages, " messages and ",
                sent.backward.bytes.value(), " in ", sent.backward.messages);
}

void expect_sent(const Mesh& mesh, const Sent& found, const Sent& expected, const char* name) {
  expect_on_all_ranks(mesh.world(), found == expected,
                      concat(name, " on ", mesh.grid(), " sends ", to_string(found), ", not ",
                             to_string(expected)));
}

constexpr auto kAb = [](auto& a, auto& b) { return matrix::ab(a, b); };
constexpr auto kAbt = [](auto& a, auto& b) { return matrix::abt(a, b); };
constexpr auto kAtb = [](auto& a, auto& b) { return matrix::atb(a, b); };
constexpr auto kAdd = [](auto& a, auto& v) { return matrix::add(a, v); };
constexpr auto kMultiply = [](auto& a, auto& v) { return matrix::multiply(a, v); };

template <Axis kC>
void expect_direction(const Mesh& mesh, const Extent& e, at::ScalarType type,
                      schedule::DType dtype) {
  constexpr Axis kP = across(kC);
  using In = Activations<kC>;
  using Out = Activations<kP>;
  const auto product = [&](Part result) {
    return matrix::product_traffic(result, kC, e, mesh.grid(), dtype);
  };
  const auto vector = [&](Elementwise op) {
    return matrix::vector_traffic(op, kC, e.k, mesh.grid(), dtype);
  };
  const auto ab = measured<In, Weight<kC>>(mesh, {e.m, e.k}, {e.k, e.n}, kAb, {}, type);
  expect_sent(mesh, ab, product(Part::kOut), "AB");
  const auto abt = measured<Out, Weight<kC>>(mesh, {e.m, e.n}, {e.k, e.n}, kAbt, {}, type);
  expect_sent(mesh, abt, product(Part::kIn), "ABt");
  const auto atb = measured<In, Out>(mesh, {e.m, e.k}, {e.m, e.n}, kAtb, {}, type);
  expect_sent(mesh, atb, product(Part::kWeight), "AtB");
  const auto add = measured<In, Vector<kC>>(mesh, {e.m, e.k}, {e.k}, kAdd, {}, type);
  expect_sent(mesh, add, vector(Elementwise::kAdd), "add");
  const auto multiply = measured<In, Vector<kC>>(mesh, {e.m, e.k}, {e.k}, kMultiply, {}, type);
  expect_sent(mesh, multiply, vector(Elementwise::kMultiply), "multiply");
}

Extent extent_of(const grid::Sizes& sizes) {
  const std::int64_t unit = unit_of(sizes);
  return {.m = 2 * unit, .k = 3 * unit, .n = 5 * unit};
}

class TrafficOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(TrafficOnGrid, EqualsTheClosedForm) {
  const grid::Grid grid(GetParam());
  const Extent extent = extent_of(GetParam());
  on_threads(grid.ranks(), [&](comm::World& world) {
    const Mesh mesh(world, grid);
    expect_direction<Axis::kX>(mesh, extent, at::kDouble, schedule::DType::kF64);
    expect_direction<Axis::kY>(mesh, extent, at::kDouble, schedule::DType::kF64);
    expect_direction<Axis::kX>(mesh, extent, at::kBFloat16, schedule::DType::kBF16);
  });
}

TEST_P(TrafficOnGrid, OneGradientAloneCostsAsMuchAsForward) {
  const grid::Grid grid(GetParam());
  const Extent e = extent_of(GetParam());
  on_threads(grid.ranks(), [&](comm::World& world) {
    const Mesh mesh(world, grid);
    using X = Activations<Axis::kX>;
    using Y = Activations<Axis::kY>;
    using W = Weight<Axis::kX>;
    for (const Asked asked : {Asked{true, false}, Asked{false, true}}) {
      const auto ab = measured<X, W>(mesh, {e.m, e.k}, {e.k, e.n}, kAb, asked);
      expect_sent(mesh, ab, {ab.forward, ab.forward}, "one gradient of AB");
      const auto abt = measured<Y, W>(mesh, {e.m, e.n}, {e.k, e.n}, kAbt, asked);
      expect_sent(mesh, abt, {abt.forward, abt.forward}, "one gradient of ABt");
      const auto atb = measured<X, Y>(mesh, {e.m, e.k}, {e.m, e.n}, kAtb, asked);
      expect_sent(mesh, atb, {atb.forward, atb.forward}, "one gradient of AtB");
      using V = Vector<Axis::kX>;
      const auto add = measured<X, V>(mesh, {e.m, e.k}, {e.k}, kAdd, asked);
      expect_sent(mesh, add, {add.forward, asked.b ? add.forward : Traffic{}}, "one of add");
      const auto multiply = measured<X, V>(mesh, {e.m, e.k}, {e.k}, kMultiply, asked);
      expect_sent(mesh, multiply, {multiply.forward, multiply.forward}, "one of multiply");
    }
  });
}

/// The formulas of the documents, in elements.
TEST_P(TrafficOnGrid, ClosedFormIsTheOneInTheDocuments) {
  const grid::Sizes& s = GetParam();
  const grid::Grid grid(s);
  const auto [m, k, n] = extent_of(s);
  const std::int64_t ranks = unit_of(s);
  const std::int64_t in = (s.y - 1) * m * k / ranks;
  const std::int64_t weight = (s.z - 1) * k * n / ranks;
  const std::int64_t out = (s.x - 1) * m * n / ranks;
  const std::int64_t vector = (std::int64_t{s.x} * s.z - 1) * n / ranks;
  const auto bytes = [&](Part result) {
    const Sent sent =
        matrix::product_traffic(result, Axis::kX, {m, k, n}, grid, schedule::DType::kF64);
    return std::pair(sent.forward.bytes.value() / 8, sent.backward.bytes.value() / 8);
  };
  const std::int64_t sum = in + weight + out;
  EXPECT_EQ(bytes(Part::kOut), std::pair(sum, 2 * in + 2 * weight + out));
  EXPECT_EQ(bytes(Part::kIn), std::pair(sum, in + 2 * weight + 2 * out));
  EXPECT_EQ(bytes(Part::kWeight), std::pair(sum, 2 * in + weight + 2 * out));
  const Sent add =
      matrix::vector_traffic(Elementwise::kAdd, Axis::kY, n, grid, schedule::DType::kF64);
  EXPECT_EQ(add.forward.bytes.value(), 8 * vector);
  EXPECT_EQ(add.backward.bytes.value(), 8 * vector);
  const Sent multiply =
      matrix::vector_traffic(Elementwise::kMultiply, Axis::kY, n, grid, schedule::DType::kF64);
  EXPECT_EQ(multiply.forward.bytes.value(), 8 * vector);
  EXPECT_EQ(multiply.backward.bytes.value(), 2 * 8 * vector);
}

/// A part of more than a segment takes several messages.
TEST(MatrixTraffic, LongMessages) {
  const grid::Grid grid({.x = 2});
  const Extent e = {.m = 2, .k = 2, .n = 3 << 18};  // 6 MiB of out a rank
  on_threads(grid.ranks(), [&](comm::World& world) {
    const Mesh mesh(world, grid);
    const auto found =
        measured<Activations<Axis::kX>, Weight<Axis::kX>>(mesh, {e.m, e.k}, {e.k, e.n}, kAb);
    const Sent expected =
        matrix::product_traffic(Part::kOut, Axis::kX, e, grid, schedule::DType::kF64);
    expect_sent(mesh, found, expected, "AB");
    expect_on_all_ranks(world, expected.forward.messages == 2, "two segments");
  });
}

// --- schedules

/// One pass of every function, forward and backward.
void run_all(const Mesh& mesh, const Extent& e) {
  const auto x = Activations<Axis::kX>::zeros(mesh, {e.m, e.k}, at::kDouble);
  const auto w = Weight<Axis::kX>::zeros(mesh, {e.k, e.n}, at::kDouble);
  const auto v = Vector<Axis::kY>::zeros(mesh, {e.n}, at::kDouble);
  for (const Tensor& local : {x.local(), w.local(), v.local()}) local.set_requires_grad(true);
  const auto h = matrix::multiply(matrix::add(matrix::ab(x, w), v), v);
  const auto g = matrix::atb(matrix::abt(h, w), h);
  static_cast<void>(g.to_global());
  g.local().sum().backward();
}

TEST_P(TrafficOnGrid, DryRunsDoWhatRealRunsDo) {
  const grid::Grid grid(GetParam());
  const Extent extent = extent_of(GetParam());
  on_threads(grid.ranks(), [&](comm::World& world) {
    const auto record = [&](comm::World& here) {
      Mesh mesh(here, grid);
      schedule::Schedule schedule;
      const comm::Recording recording(here, schedule);
      run_all(mesh, extent);
      return schedule;
    };
    const schedule::Schedule real = record(world);
    comm::World dry_world = comm::recording::open(world.rank(), world.size());
    const schedule::Schedule dry = record(dry_world);
    expect_on_all_ranks(world, real == dry, concat(grid, ": real\n", real, "dry\n", dry));
  });
}

INSTANTIATE_TEST_SUITE_P(Boxes, TrafficOnGrid, testing::ValuesIn(box_grids()),
                         [](const auto& test) { return name_of_grid(test.param); });

/// What a step is, in a word.
std::string word(const schedule::Step& step) {
  if (const auto* compute = std::get_if<schedule::Compute>(&step)) return compute->name;
  if (const auto* issue = std::get_if<schedule::Issue>(&step)) {
    return concat(issue->collective.op, " ", issue->axes, " #", issue->number);
  }
  return concat("wait #", std::get<schedule::Wait>(step).number);
}

std::string words_of_backward(const grid::Sizes& sizes) {
  const grid::Grid grid(sizes);
  comm::World world = comm::recording::open(0, grid.ranks());
  Mesh mesh(world, grid);
  const auto x = Activations<Axis::kX>::zeros(mesh, {8, 8}, at::kDouble);
  const auto w = Weight<Axis::kX>::zeros(mesh, {8, 8}, at::kDouble);
  x.local().set_requires_grad(true);
  w.local().set_requires_grad(true);
  const Tensor result = matrix::ab(x, w).local();
  schedule::Schedule schedule;
  const comm::Recording recording(world, schedule);
  result.backward(at::zeros_like(result));
  std::vector<std::string> words;
  for (const schedule::Step& step : schedule.steps()) words.push_back(word(step));
  return join(words, ", ");
}

/// The gradient is gathered once, the first sum is under way during the second product, and both
/// are waited for.
TEST(MatrixSchedule, BackwardHidesTheFirstSum) {
  EXPECT_EQ(words_of_backward({.x = 2, .y = 2, .z = 2}),
            "all_gather x #0, all_gather y #1, all_gather z #2, wait #0, wait #2, AB dA, "
            "reduce_scatter y #3, wait #1, AB dB, reduce_scatter z #4, wait #3, wait #4");
}

/// Where dA needs no sum, the sum of dB is hidden behind it.
TEST(MatrixSchedule, BackwardStartsWithWhatHasASum) {
  EXPECT_EQ(words_of_backward({.z = 2}),
            "all_gather z #0, AB dB, reduce_scatter z #1, wait #0, AB dA, wait #1");
}

}  // namespace
}  // namespace fourfold::test
