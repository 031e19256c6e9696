// Whole tensors, cut into the parts of ranks and put together again.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/shard.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "fourfold/base/text.hpp"
#include "fourfold/comm/recording/recording.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using tensor::Mesh;
using tensor::Padding;
using tensor::Tensor;

Tensor numbers(const grid::Shape& shape, at::ScalarType type = at::kDouble) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::arange(1, count + 1, type).view(shape);
}

const grid::Layout kRowsAndColumns({Axes{Axis::kData, Axis::kZ, Axis::kY}, Axes(Axis::kX)});

TEST(Shard, IsTheBlockOfTheLayout) {
  on_threads(8, [](comm::World& world) {
    const Mesh mesh(world, grid::Grid({.x = 2, .y = 2, .data = 2}));
    for (const at::ScalarType type : {at::kDouble, at::kLong, at::kBFloat16}) {
      const Tensor whole = numbers({8, 4}, type);
      const Tensor part = tensor::shard(mesh, whole, kRowsAndColumns);
      const std::int64_t row = 2 * mesh.index({Axis::kData, Axis::kZ, Axis::kY});
      const Tensor expected = whole.narrow(0, row, 2).narrow(1, 2 * mesh.index(Axis::kX), 2);
      expect_on_all_ranks(world, part.is_contiguous() && at::equal(part, expected), "the block");
    }
  });
}

TEST(Shard, IsMemoryOfItsOwnWithoutAGraph) {
  on_threads(1, [](comm::World& world) {
    const Mesh mesh(world, grid::Grid());
    const Tensor whole = numbers({2, 2}).set_requires_grad(true);
    const Tensor part = tensor::shard(mesh, whole, kRowsAndColumns);
    EXPECT_FALSE(part.requires_grad());
    EXPECT_FALSE(part.is_alias_of(whole));
    EXPECT_FALSE(tensor::unshard(mesh, part, {2, 2}, kRowsAndColumns).is_alias_of(part));
  });
}

TEST(Shard, RefusesWhatDoesNotDivide) {
  on_threads(3, [](comm::World& world) {
    const Mesh mesh(world, grid::Grid({.y = 3}));
    std::string said;
    try {
      static_cast<void>(tensor::shard(mesh, numbers({32, 4}), kRowsAndColumns));
    } catch (const ConfigError& error) {
      said = error.what();
    }
    expect_on_all_ranks(world,
                        said ==
                            "dimension 0 of a tensor of 32x4 cannot be split over y=3: 32 is "
                            "no multiple of 3; choose sizes that divide, or ask for "
                            "tensor::Padding::kZeros",
                        said);
    const Tensor part = tensor::shard(mesh, numbers({32, 4}), kRowsAndColumns, Padding::kZeros);
    const std::int64_t rows = world.rank() == 2 ? 10 : 11;
    const bool padded = part.size(0) == 11 && part.narrow(0, 0, rows).min().item<double>() > 0 &&
                        (rows == 11 || part[10].abs().max().item<double>() == 0);
    expect_on_all_ranks(world, padded, "zeros at the end");
  });
}

TEST(Shard, IsPutTogetherAgain) {
  on_threads(12, [](comm::World& world) {
    const Mesh mesh(world, grid::Grid({.x = 2, .y = 3, .z = 2}));
    const std::vector<grid::Layout> layouts = {
        kRowsAndColumns, grid::Layout({Axes(Axis::kX), Axes{Axis::kY, Axis::kZ}}),
        grid::Layout({Axes(), Axes{Axis::kZ, Axis::kX, Axis::kY}}), grid::Layout({Axes(), Axes()})};
    // 13 and 5 leave some ranks with nothing but padding.
    for (const grid::Shape& shape : {grid::Shape{12, 12}, grid::Shape{13, 5}, grid::Shape{1, 1}}) {
      for (const grid::Layout& layout : layouts) {
        const Tensor whole = numbers(shape);
        const Tensor part = tensor::shard(mesh, whole, layout, Padding::kZeros);
        const Tensor again = tensor::unshard(mesh, part, shape, layout);
        expect_on_all_ranks(world, at::equal(again, whole), concat("by ", layout));
      }
    }
  });
}

TEST(Shard, RefusesOtherShapes) {
  on_threads(2, [](comm::World& world) {
    const Mesh mesh(world, grid::Grid({.y = 2}));
    EXPECT_THROW(tensor::shard(mesh, numbers({4}), kRowsAndColumns), InvariantError);
    EXPECT_THROW(tensor::unshard(mesh, numbers({4, 4}), {4, 4}, kRowsAndColumns), InvariantError);
    const grid::Layout sums({Axes(Axis::kX)}, Axis::kY);
    EXPECT_THROW(tensor::shard(mesh, numbers({4}), sums), InvariantError);
  });
}

TEST(Shard, IsMetaInADryRun) {
  comm::World world = comm::recording::open(0, 2);
  const Mesh mesh(world, grid::Grid({.y = 2}));
  const Tensor part = tensor::shard(mesh, numbers({4, 4}), kRowsAndColumns);
  EXPECT_TRUE(part.is_meta());
  EXPECT_EQ(part.size(0), 2);
}

}  // namespace
}  // namespace fourfold::test
