// Products, sums and scalings on grids against plain libtorch: values and both gradients.
// SPDX-License-Identifier: Apache-2.0
#include "matrix/product.hpp"

#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include "matrix/vector.hpp"
#include "tests/examples/matrix/support.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using matrix::across;
using matrix::Activations;
using matrix::Vector;
using matrix::Weight;
using tensor::Mesh;

constexpr double kTolerance = 1e-10;

/// What plain libtorch makes of two tensors.
struct Serial {
  std::string name;
  Tensor a;
  Tensor b;
  Tensor upstream;  // the gradient of the result
  Tensor result;
  Tensor da;
  Tensor db;
};

template <class Op>
Serial serial(const std::string& name, const grid::Shape& a, const grid::Shape& b, const Op& op) {
  Serial s;
  s.name = name;
  s.a = leaf(whole(a, name + " a"));
  s.b = leaf(whole(b, name + " b"));
  s.result = op(s.a, s.b);
  s.upstream = whole(s.result.sizes().vec(), name + " upstream");
  s.result.backward(s.upstream);
  s.da = s.a.grad();
  s.db = s.b.grad();
  return s;
}

/// The same of matrices of the types A and B, held against it.
template <class A, class B, class Op>
void see(Worst& worst, const Mesh& mesh, const Serial& s, const Op& op) {
  const A a = A::from_global(mesh, s.a);
  const B b = B::from_global(mesh, s.b);
  a.local().set_requires_grad(true);
  b.local().set_requires_grad(true);
  const auto c = op(a, b);
  using C = std::remove_const_t<decltype(c)>;
  worst.see(c.to_global(), s.result, s.name);
  c.local().backward(C::from_global(mesh, s.upstream).local());
  worst.see(a.gradient().to_global(), s.da, s.name + " dA");
  worst.see(b.gradient().to_global(), s.db, s.name + " dB");
}

/// Every function in direction kC, sizes being multiples of `unit`.
template <Axis kC>
void see_direction(Worst& worst, const Mesh& mesh, std::int64_t unit) {
  constexpr Axis kP = across(kC);
  const std::int64_t m = 2 * unit;
  const std::int64_t k = 3 * unit;
  const std::int64_t n = 5 * unit;
  see<Activations<kC>, Weight<kC>>(
      worst, mesh, serial("AB", {m, k}, {k, n}, [](auto& a, auto& b) { return a.mm(b); }),
      [](auto& a, auto& b) { return matrix::ab(a, b); });
  see<Activations<kP>, Weight<kC>>(
      worst, mesh, serial("ABt", {m, n}, {k, n}, [](auto& a, auto& b) { return a.mm(b.t()); }),
      [](auto& a, auto& b) { return matrix::abt(a, b); });
  see<Activations<kC>, Activations<kP>>(
      worst, mesh, serial("AtB", {m, k}, {m, n}, [](auto& a, auto& b) { return a.t().mm(b); }),
      [](auto& a, auto& b) { return matrix::atb(a, b); });
  see<Activations<kC>, Vector<kC>>(
      worst, mesh, serial("add", {m, k}, {k}, [](auto& a, auto& v) { return a.add(v); }),
      [](auto& a, auto& v) { return matrix::add(a, v); });
  see<Activations<kC>, Vector<kC>>(
      worst, mesh, serial("multiply", {m, k}, {k}, [](auto& a, auto& v) { return a.mul(v); }),
      [](auto& a, auto& v) { return matrix::multiply(a, v); });
}

class MatrixOnGrid : public testing::TestWithParam<grid::Sizes> {
 protected:
  /// Runs `body(worst, mesh)` on every rank of the grid.
  template <class Body>
  void on_grid(const Body& body) const {
    const grid::Grid grid(GetParam());
    on_threads(grid.ranks(), [&](comm::World& world) {
      const Mesh mesh(world, grid);
      Worst worst;
      body(worst, mesh);
      expect_on_all_ranks(world, worst.error <= kTolerance,
                          concat(grid, ": error ", worst.error, " of ", worst.where));
    });
  }
  std::int64_t unit() const { return unit_of(GetParam()); }
};

TEST_P(MatrixOnGrid, EqualsSerial) {
  on_grid([&](Worst& worst, const Mesh& mesh) { see_direction<Axis::kX>(worst, mesh, unit()); });
}

TEST_P(MatrixOnGrid, SwappedEqualsSerial) {
  on_grid([&](Worst& worst, const Mesh& mesh) { see_direction<Axis::kY>(worst, mesh, unit()); });
}

// --- a network of all of them: weights used twice, a weight that is itself a product

struct Network {
  Tensor x, w1, b1, s, w2;
};

Network whole_network(std::int64_t unit) {
  const std::int64_t m = 2 * unit;
  const std::int64_t k = 3 * unit;
  const std::int64_t n = unit;
  const std::int64_t o = 4 * unit;
  return {.x = leaf(whole({m, k}, "x")),
          .w1 = leaf(whole({k, n}, "w1")),
          .b1 = leaf(whole({n}, "b1")),
          .s = leaf(whole({n}, "s")),
          .w2 = leaf(whole({n, o}, "w2"))};
}

Tensor run_whole(const Network& net) {
  const Tensor hidden = at::relu(net.x.mm(net.w1).add(net.b1)).mul(net.s);
  const Tensor back = hidden.mm(net.w2).mm(net.w2.t());
  return net.x.mm(net.x.t().mm(back));
}

/// The result, and the gradients when the gradient of the result is `upstream`.
void see_network(Worst& worst, const Mesh& mesh, const Network& net, const Tensor& result,
                 const Tensor& upstream) {
  const auto x = Activations<Axis::kX>::from_global(mesh, net.x);
  const auto w1 = Weight<Axis::kX>::from_global(mesh, net.w1);
  const auto b1 = Vector<Axis::kY>::from_global(mesh, net.b1);
  const auto s = Vector<Axis::kY>::from_global(mesh, net.s);
  const auto w2 = Weight<Axis::kY>::from_global(mesh, net.w2);
  for (const Tensor& local : {x.local(), w1.local(), b1.local(), s.local(), w2.local()}) {
    local.set_requires_grad(true);
  }
  const auto sum = matrix::add(matrix::ab(x, w1), b1);
  const auto hidden = matrix::multiply(sum.with(at::relu(sum.local())), s);
  const Activations<Axis::kX> wide = matrix::ab(hidden, w2);
  const Activations<Axis::kY> back = matrix::abt(wide, w2);
  const auto out = matrix::ab(x, matrix::atb(x, back));
  worst.see(out.to_global(), result, "result");
  out.local().backward(Activations<Axis::kY>::from_global(mesh, upstream).local());
  worst.see(x.gradient().to_global(), net.x.grad(), "dx");
  worst.see(w1.gradient().to_global(), net.w1.grad(), "dw1");
  worst.see(b1.gradient().to_global(), net.b1.grad(), "db1");
  worst.see(s.gradient().to_global(), net.s.grad(), "ds");
  worst.see(w2.gradient().to_global(), net.w2.grad(), "dw2");
}

TEST_P(MatrixOnGrid, ChainsEqualSerial) {
  const Network net = whole_network(unit());
  const Tensor result = run_whole(net);
  const Tensor upstream = whole(result.sizes().vec(), "upstream");
  result.backward(upstream);
  on_grid([&](Worst& worst, const Mesh& mesh) {
    see_network(worst, mesh, net, result.detach(), upstream);
  });
}

// --- one operand that needs no gradient, the graph kept for a second pass, gradients of a sum

TEST_P(MatrixOnGrid, OneGradientAlone) {
  const auto product = [](auto& a, auto& b) { return a.mm(b); };
  const Serial s = serial("AB", {2 * unit(), 3 * unit()}, {3 * unit(), unit()}, product);
  on_grid([&](Worst& worst, const Mesh& mesh) {
    for (const bool for_a : {true, false}) {
      const auto a = Activations<Axis::kX>::from_global(mesh, s.a);
      const auto b = Weight<Axis::kX>::from_global(mesh, s.b);
      (for_a ? a.local() : b.local()).set_requires_grad(true);
      const auto c = matrix::ab(a, b);
      const Tensor upstream = Activations<Axis::kY>::from_global(mesh, s.upstream).local();
      c.local().backward(upstream, true);
      c.local().backward(upstream);  // a second time: gradients add up
      if (for_a) worst.see(a.gradient().to_global(), s.da.mul(2), "dA alone");
      if (!for_a) worst.see(b.gradient().to_global(), s.db.mul(2), "dB alone");
      const Tensor& other = for_a ? b.local() : a.local();
      expect_on_all_ranks(mesh.world(), !other.grad().defined(), "the other has no gradient");
    }
  });
}

/// The gradient of a sum is an expanded one, not contiguous.
TEST_P(MatrixOnGrid, EachRankStartsFromItsSummandOfTheLoss) {
  const Tensor x = leaf(whole({2 * unit(), 3 * unit()}, "x"));
  const Tensor w = leaf(whole({3 * unit(), unit()}, "w"));
  const Tensor v = leaf(whole({3 * unit()}, "v"));
  x.mm(w).sum().add(x.add(v).sum()).add(x.mul(v).sum()).backward();
  on_grid([&](Worst& worst, const Mesh& mesh) {
    const auto a = Activations<Axis::kX>::from_global(mesh, x);
    const auto b = Weight<Axis::kX>::from_global(mesh, w);
    const auto c = Vector<Axis::kX>::from_global(mesh, v);
    for (const Tensor& local : {a.local(), b.local(), c.local()}) local.set_requires_grad(true);
    matrix::ab(a, b).local().sum().backward();
    matrix::add(a, c).local().sum().backward();
    matrix::multiply(a, c).local().sum().backward();
    worst.see(a.gradient().to_global(), x.grad(), "dA");
    worst.see(b.gradient().to_global(), w.grad(), "dB");
    worst.see(c.gradient().to_global(), v.grad(), "dv");
  });
}

/// As far as their roundings go.
TEST_P(MatrixOnGrid, NarrowTypes) {
  const auto product = [](auto& a, auto& b) { return a.mm(b); };
  const Serial s = serial("AB", {2 * unit(), 3 * unit()}, {3 * unit(), unit()}, product);
  const Tensor v = leaf(whole({unit()}, "v"));
  const Tensor scaled = s.result.detach().mul(v);
  scaled.backward(s.upstream);
  const grid::Grid grid(GetParam());
  on_threads(grid.ranks(), [&](comm::World& world) {
    const Mesh mesh(world, grid);
    for (const auto& [type, tolerance] : {std::pair{at::kFloat, 1e-5}, {at::kBFloat16, 0.05}}) {
      Worst worst;
      const auto a = Activations<Axis::kX>::from_global(mesh, s.a.detach().to(type));
      const auto b = Weight<Axis::kX>::from_global(mesh, s.b.detach().to(type));
      const auto c = Vector<Axis::kY>::from_global(mesh, v.detach().to(type));
      c.local().set_requires_grad(true);
      const auto out = matrix::multiply(matrix::ab(a, b), c);
      worst.see(out.to_global().to(at::kDouble), scaled, "result");
      out.local().backward(Activations<Axis::kY>::from_global(mesh, s.upstream.to(type)).local());
      worst.see(c.gradient().to_global().to(at::kDouble), v.grad(), "dv");
      expect_on_all_ranks(
          world, worst.error <= tolerance && c.local().grad().dtype() == type,
          concat(c10::toString(type), " on ", grid, ": error ", worst.error, " of ", worst.where));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Boxes, MatrixOnGrid, testing::ValuesIn(box_grids()),
                         [](const auto& test) { return name_of_grid(test.param); });

}  // namespace
}  // namespace fourfold::test
