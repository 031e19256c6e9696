// The matrix products of matrix/README.md. A network of two layers runs forward and backward on a
// 2 x 2 x 2 cube of ranks, which are threads here. The result is compared with the same network in
// plain libtorch.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/ops/relu.h>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/kernels/random.hpp"

#include "matrix/product.hpp"
#include "matrix/traffic.hpp"
#include "matrix/vector.hpp"

using namespace fourfold;
using at::Tensor;
using grid::Axis;

namespace {

constexpr std::int64_t kRows = 32, kIn = 16, kHidden = 64, kOut = 24;

/// The network as plain tensors, with gradients after `backward`.
struct Whole {
  Tensor x, w1, b1, w2;

  Tensor loss() const { return at::relu(x.mm(w1).add(b1)).mm(w2).square().sum(); }
};

Tensor random(const grid::Shape& shape, const char* name) {
  Tensor values = at::empty(shape, at::kDouble);
  grid::Block all;
  for (const std::int64_t size : shape) all.ranges.push_back({0, size});
  kernels::fill_normal(values, shape, all, kernels::key_of(1, name), 0.5);
  return values.set_requires_grad(true);
}

/// Throws unless `found` is `expected`, up to rounding.
void expect(const char* name, const Tensor& found, const Tensor& expected) {
  const double error = found.sub(expected).abs().max().item<double>();
  if (!(error <= 1e-10)) throw Error(concat(name, " is wrong by ", error));
}

/// What one rank does; returns its line of the table.
std::string train_once(comm::World& world, const Whole& whole) {
  const tensor::Mesh mesh(world, grid::Grid({.x = 2, .y = 2, .z = 2}));

  // Every rank cuts its part, 1/8, out of each tensor. The axis in its type says how it lies: a
  // weight of the wrong direction, or a vector on the wrong axis, would not compile below.
  const auto x = matrix::Activations<Axis::kX>::from_global(mesh, whole.x);
  const auto w1 = matrix::Weight<Axis::kX>::from_global(mesh, whole.w1);
  const auto b1 = matrix::Vector<Axis::kY>::from_global(mesh, whole.b1);
  const auto w2 = matrix::Weight<Axis::kY>::from_global(mesh, whole.w2);
  for (const Tensor& local : {w1.local(), b1.local(), w2.local()}) local.set_requires_grad(true);

  // The first product goes from columns on x to columns on y, the second one back.
  const auto sum = matrix::add(matrix::ab(x, w1), b1);
  const auto hidden = sum.with(at::relu(sum.local()));  // what acts on each element needs no help
  const matrix::Activations<Axis::kX> out = matrix::ab(hidden, w2);

  // A loss is a sum over ranks: each starts backward from its own summand.
  out.local().square().sum().backward();
  schedule::Traffic sent;
  for (const auto& [key, count] : world.counters()) sent += count.wire;

  expect("dW1", w1.gradient().to_global(), whole.w1.grad());
  expect("db1", b1.gradient().to_global(), whole.b1.grad());
  expect("dW2", w2.gradient().to_global(), whole.w2.grad());

  // The input needs no gradient, so the first product's backward costs as much as its forward.
  const auto f64 = schedule::DType::kF64;
  const auto first = matrix::product_traffic(matrix::Part::kOut, Axis::kX, {kRows, kIn, kHidden},
                                             mesh.grid(), f64);
  const auto second = matrix::product_traffic(matrix::Part::kOut, Axis::kY, {kRows, kHidden, kOut},
                                              mesh.grid(), f64);
  const auto bias =
      matrix::vector_traffic(matrix::Elementwise::kAdd, Axis::kY, kHidden, mesh.grid(), f64);
  schedule::Traffic planned;
  for (const schedule::Traffic& part : {first.forward, first.forward, bias.forward, bias.backward,
                                        second.forward, second.backward}) {
    planned += part;
  }
  if (!(sent == planned)) throw Error("a rank sent something else than the closed form");

  return concat("rank ", world.rank(), "   x ", x.block(), "   W1 ", w1.block(), "   b1 ",
                b1.block(), "   W2 ", w2.block(), "   sent ", sent.bytes, " in ", sent.messages,
                " messages");
}

}  // namespace

int main() {
  const Whole whole{random({kRows, kIn}, "x"), random({kIn, kHidden}, "W1"),
                    random({kHidden}, "b1"), random({kHidden, kOut}, "W2")};
  whole.loss().backward();
  std::vector<std::string> lines(8);
  try {
    comm::thread::run(8, [&](comm::World& world) {
      lines[static_cast<std::size_t>(world.rank())] = train_once(world, whole);
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", describe(error).c_str());
    return 1;
  }
  std::printf("x 32x16, W1 16x64, b1 64 and W2 64x24 on 8 ranks, who holds what:\n");
  for (const std::string& line : lines) std::printf("%s\n", line.c_str());
  std::printf("All gradients equal those of plain libtorch.\n");
  return 0;
}
