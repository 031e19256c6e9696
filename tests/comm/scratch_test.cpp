// The scratch pool: blocks come back and are used again, aligned, and move like values.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/scratch.hpp"

#include <cstdint>
#include <cstring>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace fourfold::test {
namespace {

using comm::ScratchPool;
using Block = ScratchPool::Block;

TEST(Scratch, UsesReturnedMemoryAgain) {
  ScratchPool pool;
  const std::byte* first = nullptr;
  {
    const Block block = pool.take(10'000);
    first = block.data();
  }
  const std::int64_t peak = pool.peak_bytes();
  EXPECT_GE(peak, 10'000);
  for (int i = 0; i < 100; ++i) {
    const Block block = pool.take(10'000 - i);
    EXPECT_EQ(block.data(), first);
  }
  EXPECT_EQ(pool.peak_bytes(), peak);
}

TEST(Scratch, SecondRoundOfAnyPatternAllocatesNothing) {
  ScratchPool pool;
  const auto round = [&] {
    std::vector<Block> blocks;
    for (std::int64_t bytes : {1, 100, 4096, 4097, 70'000, 1 << 20, 70'000}) {
      blocks.push_back(pool.take(bytes));
    }
  };
  round();
  const std::int64_t peak = pool.peak_bytes();
  for (int i = 0; i < 10; ++i) round();
  EXPECT_EQ(pool.peak_bytes(), peak);
}

TEST(Scratch, BlocksThatAreOutDoNotOverlap) {
  ScratchPool pool;
  std::vector<Block> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(pool.take(5000));
    std::memset(blocks.back().data(), i, 5000);
  }
  for (int i = 0; i < 20; ++i) {
    const std::byte* data = blocks[static_cast<std::size_t>(i)].data();
    for (int k = 0; k < 5000; ++k) ASSERT_EQ(data[k], static_cast<std::byte>(i));
  }
  EXPECT_GE(pool.peak_bytes(), 20 * 5000);
}

TEST(Scratch, EveryBlockIsAligned) {
  ScratchPool pool;
  std::vector<Block> blocks;
  for (std::int64_t bytes : {1, 2, 63, 64, 65, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1}) {
    blocks.push_back(pool.take(bytes));
    const auto address = reinterpret_cast<std::uintptr_t>(blocks.back().data());
    EXPECT_NE(address, 0U);
    EXPECT_EQ(address % 64, 0U) << bytes;
    std::memset(blocks.back().data(), 1, static_cast<std::size_t>(bytes));
  }
}

TEST(Scratch, NothingForNoBytes) {
  ScratchPool pool;
  EXPECT_EQ(pool.peak_bytes(), 0);
  EXPECT_EQ(pool.take(0).data(), nullptr);
  EXPECT_EQ(pool.peak_bytes(), 0);
  EXPECT_EQ(Block().data(), nullptr);
}

TEST(Scratch, PeakCountsWhatIsOutAndWhatIsKept) {
  ScratchPool pool;
  Block a = pool.take(1 << 16);
  EXPECT_EQ(pool.peak_bytes(), 1 << 16);
  Block b = pool.take(1 << 16);
  EXPECT_EQ(pool.peak_bytes(), 2 << 16);
  a = Block();
  const Block c = pool.take(1 << 17);
  EXPECT_EQ(pool.peak_bytes(), 4 << 16);
}

TEST(Scratch, ConstructionByMoveTakesTheMemory) {
  static_assert(!std::is_copy_constructible_v<Block> && !std::is_copy_assignable_v<Block>);
  static_assert(std::is_nothrow_move_constructible_v<Block>);
  ScratchPool pool;
  Block from = pool.take(100);
  std::byte* data = from.data();
  {
    const Block to = std::move(from);
    EXPECT_EQ(to.data(), data);
    EXPECT_EQ(from.data(), nullptr);  // NOLINT: the moved-from state is what is tested
  }
  EXPECT_EQ(pool.take(100).data(), data) << "returned once, by the new owner";
  const std::int64_t peak = pool.peak_bytes();
  const Block one = pool.take(100);
  EXPECT_EQ(pool.peak_bytes(), peak);
  const Block two = pool.take(100);
  EXPECT_NE(one.data(), two.data()) << "returned twice";
}

TEST(Scratch, AssignmentByMoveTakesTheMemoryAndLosesNone) {
  ScratchPool pool;
  std::set<std::byte*> known;
  {
    Block a = pool.take(100);
    Block b = pool.take(100);
    known = {a.data(), b.data()};
    std::byte* of_b = b.data();
    a = std::move(b);
    EXPECT_EQ(a.data(), of_b);
  }
  const std::int64_t peak = pool.peak_bytes();
  const Block a = pool.take(100);
  const Block b = pool.take(100);
  EXPECT_EQ((std::set<std::byte*>{a.data(), b.data()}), known);
  EXPECT_EQ(pool.peak_bytes(), peak);
}

}  // namespace
}  // namespace fourfold::test
