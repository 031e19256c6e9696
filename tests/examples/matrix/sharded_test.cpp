// Shards: what each rank has, what fits together and what is refused, what a graph keeps.
// SPDX-License-Identifier: Apache-2.0
#include "matrix/sharded.hpp"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/tensor/memory.hpp"

#include "matrix/product.hpp"
#include "matrix/vector.hpp"
#include "tests/examples/matrix/support.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using matrix::Activations;
using matrix::Vector;
using matrix::Weight;
using tensor::MemoryClass;
using tensor::MemoryMeter;
using tensor::Mesh;

constexpr Axis kX = Axis::kX;
constexpr Axis kY = Axis::kY;

// --- what the compiler refuses

template <class A, class B>
concept HasAb = requires(const A& a, const B& b) {
  matrix::ab(a, b);
};
template <class A, class B>
concept HasAbt = requires(const A& a, const B& b) {
  matrix::abt(a, b);
};
template <class A, class B>
concept HasAtb = requires(const A& a, const B& b) {
  matrix::atb(a, b);
};
template <class A, class B>
concept HasAdd = requires(const A& a, const B& b) {
  matrix::add(a, b);
};
template <class A, class B>
concept HasMultiply = requires(const A& a, const B& b) {
  matrix::multiply(a, b);
};

static_assert(HasAb<Activations<kX>, Weight<kX>> && HasAb<Activations<kY>, Weight<kY>>);
static_assert(!HasAb<Activations<kX>, Weight<kY>>, "the weight's rows lie on the other axis");
static_assert(!HasAb<Activations<kY>, Weight<kX>>);
static_assert(!HasAb<Activations<kX>, Activations<kX>> && !HasAb<Weight<kX>, Weight<kX>>);
static_assert(!HasAb<Activations<kX>, Vector<kX>> && !HasAb<Weight<kX>, Activations<kX>>);
static_assert(HasAbt<Activations<kY>, Weight<kX>> && HasAbt<Activations<kX>, Weight<kY>>);
static_assert(!HasAbt<Activations<kX>, Weight<kX>> && !HasAbt<Activations<kY>, Weight<kY>>);
static_assert(HasAtb<Activations<kX>, Activations<kY>> && HasAtb<Activations<kY>, Activations<kX>>);
static_assert(!HasAtb<Activations<kX>, Activations<kX>> && !HasAtb<Activations<kX>, Weight<kX>>);
static_assert(HasAdd<Activations<kX>, Vector<kX>> && HasMultiply<Activations<kY>, Vector<kY>>);
static_assert(!HasAdd<Activations<kX>, Vector<kY>> && !HasAdd<Weight<kX>, Vector<kX>>);
static_assert(!HasMultiply<Activations<kX>, Vector<kY>>);
static_assert(std::is_same_v<decltype(matrix::ab(std::declval<const Activations<kX>&>(),
                                                 std::declval<const Weight<kX>&>())),
                             Activations<kY>>);

// --- parts

/// The grid layout is written down once more, and found in the cut.
struct Expected {
  grid::Axes rows;
  grid::Axes columns;
};

template <class Matrix>
void expect_parts(comm::World& world, const Mesh& mesh, const grid::Shape& shape,
                  const Expected& expected) {
  const Tensor all = whole(shape, "parts");
  const Matrix matrix = Matrix::from_global(mesh, all);
  const int ranks = mesh.size({Axis::kX, Axis::kY, Axis::kZ});
  expect_on_all_ranks(world, matrix.local().numel() * ranks == all.numel(), "1/P of the whole");
  Tensor part = all;
  const auto narrow = [&](std::int64_t dim, const grid::Axes& axes) {
    const std::int64_t size = part.size(dim) / mesh.size(axes);
    part = part.narrow(dim, mesh.index(axes) * size, size);
  };
  narrow(0, expected.rows);
  if (shape.size() == 2) narrow(1, expected.columns);
  expect_on_all_ranks(world, at::equal(matrix.local(), part), "the part of this rank");
  expect_on_all_ranks(world, at::equal(matrix.to_global(), all), "the whole, rebuilt");
  Tensor at_block = all;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const grid::Range range = matrix.block().ranges[d];
    at_block = at_block.narrow(static_cast<std::int64_t>(d), range.begin, range.size());
  }
  expect_on_all_ranks(world, at::equal(matrix.local(), at_block), "where the part lies");
  const Matrix random = Matrix::normal(mesh, shape, 5, "parts", 1, at::kDouble);
  expect_on_all_ranks(world, at::equal(random.local(), part), "random numbers of this rank");
  const Matrix zeros = Matrix::zeros(mesh, shape, at::kFloat);
  expect_on_all_ranks(world, zeros.local().sizes() == part.sizes(), "zeros of this rank");
}

class ShardsOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(ShardsOnGrid, RebuildExactly) {
  const grid::Grid grid(GetParam());
  const std::int64_t unit = unit_of(GetParam());
  on_threads(grid.ranks(), [&](comm::World& world) {
    const Mesh mesh(world, grid);
    const grid::Shape shape = {2 * unit, 3 * unit};
    expect_parts<Activations<kX>>(world, mesh, shape, {{Axis::kZ, kY}, kX});
    expect_parts<Activations<kY>>(world, mesh, shape, {{Axis::kZ, kX}, kY});
    expect_parts<Weight<kX>>(world, mesh, shape, {{kX, Axis::kZ}, kY});
    expect_parts<Weight<kY>>(world, mesh, shape, {{kY, Axis::kZ}, kX});
    expect_parts<Vector<kX>>(world, mesh, {2 * unit}, {{kX, kY, Axis::kZ}, {}});
    expect_parts<Vector<kY>>(world, mesh, {2 * unit}, {{kY, kX, Axis::kZ}, {}});
  });
}

/// A graph keeps the operands, which are there anyway, and results: all of them local parts.
TEST_P(ShardsOnGrid, GraphsKeepLocalPartsOnly) {
  const grid::Grid grid(GetParam());
  const std::int64_t unit = unit_of(GetParam());
  on_threads(grid.ranks(), [&](comm::World& world) {
    const Mesh mesh(world, grid);
    const auto x = Activations<kX>::from_global(mesh, whole({2 * unit, 3 * unit}, "x"));
    const auto w = Weight<kX>::from_global(mesh, whole({3 * unit, 5 * unit}, "w"));
    const auto v = Vector<kY>::from_global(mesh, whole({5 * unit}, "v"));
    for (const Tensor& local : {x.local(), w.local(), v.local()}) local.set_requires_grad(true);
    MemoryMeter meter;
    const MemoryMeter::Counting counting(meter);
    {
      const auto h = matrix::ab(x, w);
      const auto s = matrix::multiply(matrix::add(h, v), v);
      const auto g = matrix::atb(x, matrix::ab(matrix::abt(s, w), w));
      const std::int64_t xs = x.local().nbytes();
      const std::int64_t ws = w.local().nbytes();
      const std::int64_t hs = h.local().nbytes();
      expect_on_all_ranks(
          world, meter.now().total() == Bytes(4 * hs + xs + ws),
          concat(grid, " keeps ", meter.now().total().value(), " bytes, not ", 4 * hs + xs + ws));
      expect_on_all_ranks(world, meter.now()[MemoryClass::kCommunication] == Bytes(0),
                          "nothing gathered is kept");
      g.local().sum().backward();
    }
    const std::int64_t leaves = x.local().nbytes() + w.local().nbytes() + v.local().nbytes();
    expect_on_all_ranks(world, meter.now().total() == Bytes(leaves),
                        "after backward there are the gradients, and nothing else");
  });
}

INSTANTIATE_TEST_SUITE_P(Boxes, ShardsOnGrid, testing::ValuesIn(box_grids()),
                         [](const auto& test) { return name_of_grid(test.param); });

// --- what is refused at run time

/// The message that `call` throws as an E, or what happened instead.
template <class E, class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return concat("another exception: ", error.what());
  }
  return "not refused";
}

class Refusals : public testing::Test {
 protected:
  template <class Matrix>
  Matrix zeros(const grid::Shape& shape, at::ScalarType type = at::kDouble) const {
    return Matrix::zeros(mesh_, shape, type);
  }

  comm::World world_ = comm::recording::open(0, 12);
  Mesh mesh_{world_, grid::Grid({.x = 2, .y = 3, .z = 2})};
};

TEST_F(Refusals, SizesThatDoNotDivide) {
  EXPECT_EQ(refusal<ConfigError>([&] {
              zeros<Activations<kX>>({7, 6});
            }),
            "7x6 cannot be activations with columns on x: its 7 rows are split over z=2 and y=3, "
            "and must be a positive multiple of 6");
  EXPECT_EQ(refusal<ConfigError>([&] {
              zeros<Activations<kY>>({4, 8});
            }),
            "4x8 cannot be activations with columns on y: its 8 columns are split over y=3, and "
            "must be a positive multiple of 3");
  EXPECT_EQ(refusal<ConfigError>([&] {
              zeros<Weight<kY>>({8, 6});
            }),
            "8x6 cannot be a weight with rows on y: its 8 rows are split over y=3 and z=2, and "
            "must be a positive multiple of 6");
  EXPECT_EQ(refusal<ConfigError>([&] { zeros<Vector<kX>>({6}); }),
            "6 cannot be a vector on x: its 6 elements are split over x=2 and y=3 and z=2, and "
            "must be a positive multiple of 12");
  const Tensor odd = at::zeros({6, 7}, at::kDouble);
  EXPECT_NE(refusal<ConfigError>([&] {
              Activations<kX>::from_global(mesh_, odd);
            }).find("its 7 columns are split over x=2"),
            std::string::npos);
}

/// The operands lie evenly and the result would not: refused before anything is communicated.
TEST_F(Refusals, ResultsThatDoNotDivide) {
  const auto a = zeros<Activations<kX>>({6, 4});
  const auto b = zeros<Weight<kX>>({4, 3});
  EXPECT_EQ(refusal<ConfigError>([&] { matrix::ab(a, b); }),
            "6x3 cannot be activations with columns on y: its 6 rows are split over z=2 and x=2, "
            "and must be a positive multiple of 4");
  EXPECT_TRUE(world_.counters().empty());
}

TEST_F(Refusals, SizesThatDoNotFit) {
  const auto a = zeros<Activations<kX>>({12, 4});
  const auto b = zeros<Weight<kX>>({8, 6});
  const auto c = zeros<Activations<kY>>({24, 6});
  const auto c3 = zeros<Activations<kY>>({12, 3});
  EXPECT_EQ(refusal<InvariantError>([&] { matrix::ab(a, b); }),
            "AB of 12x4 and 8x6: A must have as many columns as B has rows");
  EXPECT_NE(refusal<InvariantError>([&] { matrix::abt(c3, b); }).find("as many columns as B"),
            std::string::npos);
  EXPECT_NE(refusal<InvariantError>([&] { matrix::atb(a, c); }).find("as many rows as B"),
            std::string::npos);
  const auto v = zeros<Vector<kX>>({12});
  EXPECT_NE(
      refusal<InvariantError>([&] {
        matrix::add(a, v);
      }).find("add of 12x4 and 12: the vector must have as many elements as the matrix columns"),
      std::string::npos);
}

TEST_F(Refusals, OtherTypesAndParts) {
  const auto a = zeros<Activations<kX>>({12, 4});
  EXPECT_NE(refusal<InvariantError>([&] {
              matrix::ab(a, zeros<Weight<kX>>({4, 6}, at::kFloat));
            }).find("AB: its operands are of Double and Float"),
            std::string::npos);
  EXPECT_NE(refusal<InvariantError>([&] {
              matrix::add(zeros<Activations<kX>>({12, 12}), zeros<Vector<kX>>({12}, at::kFloat));
            }).find("add: its operands are of Double and Float"),
            std::string::npos);
  const Tensor wrong = at::zeros({3, 2}, at::TensorOptions(at::kDouble).device(at::kMeta));
  EXPECT_NE(refusal<InvariantError>([&] {
              Activations<kX>(mesh_, {12, 4}, wrong);
            }).find("a rank's part of activations with columns on x of 12x4 is 2x2, and not 3x2"),
            std::string::npos);
  EXPECT_NE(refusal<InvariantError>([&] {
              zeros<Activations<kX>>({12, 4}, at::kLong);
            }).find("no numbers for"),
            std::string::npos);
  EXPECT_NE(refusal<InvariantError>([&] {
              a.with(at::zeros({2, 2}, at::kDouble));
            }).find("the mesh's device"),
            std::string::npos);
  EXPECT_NE(
      refusal<InvariantError>([&] { zeros<Activations<kX>>({12}); }).find("number of dimensions"),
      std::string::npos);
  EXPECT_NE(refusal<InvariantError>([&] { a.gradient(); }).find("no gradient"), std::string::npos);
}

TEST(MatrixRefusals, OtherMeshes) {
  comm::World world = comm::self::open();
  const Mesh one(world, grid::Grid());
  const Mesh two(world, grid::Grid());
  const auto a = Activations<kX>::zeros(one, {2, 3}, at::kDouble);
  EXPECT_NE(refusal<InvariantError>([&] {
              matrix::ab(a, Weight<kX>::zeros(two, {3, 4}, at::kDouble));
            }).find("AB: its operands are on different meshes"),
            std::string::npos);
  EXPECT_NE(refusal<InvariantError>([&] {
              matrix::multiply(a, Vector<kX>::zeros(two, {3}, at::kDouble));
            }).find("multiply: its operands are on different meshes"),
            std::string::npos);
}

/// Also on one rank: a mistake should not wait for the second.
TEST(MatrixRefusals, GradientsOfGradients) {
  comm::World world = comm::self::open();
  const Mesh mesh(world, grid::Grid());
  const auto a = Activations<kX>::from_global(mesh, whole({2, 3}, "a"));
  const auto b = Weight<kX>::from_global(mesh, whole({3, 4}, "b"));
  const auto v = Vector<kX>::from_global(mesh, whole({3}, "v"));
  for (const Tensor& local : {a.local(), b.local(), v.local()}) local.set_requires_grad(true);
  for (const Tensor& result :
       {matrix::ab(a, b).local(), matrix::add(a, v).local(), matrix::multiply(a, v).local()}) {
    EXPECT_NE(refusal<InvariantError>([&] {
                torch::autograd::grad({result.sum()}, {a.local()}, {}, true, true);
              }).find("no create_graph here"),
              std::string::npos);
  }
}

TEST(Shards, TheWholeIsACopy) {
  comm::World world = comm::self::open();
  const Mesh mesh(world, grid::Grid());
  const auto a = Activations<kX>::zeros(mesh, {2, 3}, at::kDouble);
  a.to_global().fill_(1);
  EXPECT_EQ(a.local().max().item<double>(), 0);
  const auto v = Vector<kX>::zeros(mesh, {3}, at::kDouble);
  v.to_global().fill_(1);
  EXPECT_EQ(v.local().max().item<double>(), 0);
}

}  // namespace
}  // namespace fourfold::test
