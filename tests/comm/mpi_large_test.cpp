// More elements than fit 31 bits.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

TEST(MpiLarge, AllReduceBeyondTwoToThe31Elements) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 5;
  const auto pages = sysconf(_SC_AVPHYS_PAGES);
  const double available = static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  bool enough = available > 2.2 * 2 * static_cast<double>(kCount);
  on_mpi([&](comm::World& world) {
    const auto comm = world.communicator(everyone(world));
    std::array<std::int64_t, 1> short_of_memory = {enough ? 0 : 1};
    comm.all_reduce(comm::view(short_of_memory), comm::ReduceOp::kMax).wait();
    enough = short_of_memory[0] == 0;
    if (!enough) return;
    std::vector<BFloat16> data(static_cast<std::size_t>(kCount));
    const auto value = [&](int rank, std::int64_t i) {
      return to_bfloat16(static_cast<float>((i / 4096 + i) % 61 + rank));
    };
    constexpr std::int64_t kStep = 4093;  // elements that are looked at
    const auto at = [&](std::int64_t i) -> BFloat16& { return data[static_cast<std::size_t>(i)]; };
    for (std::int64_t i = 0; i < kCount; i += kStep) at(i) = value(world.rank(), i);
    at(kCount - 1) = value(world.rank(), kCount - 1);
    comm.all_reduce(comm::view(data)).wait();
    std::int64_t wrong = 0;
    const auto look = [&](std::int64_t i) {
      const float sum = to_float(value(0, i)) + to_float(value(1, i));
      wrong += to_float(at(i)) == sum ? 0 : 1;
    };
    for (std::int64_t i = 0; i < kCount; i += kStep) look(i);
    look(kCount - 1);
    expect_on_all_ranks(world, wrong == 0, "some sums are wrong");
  });
  if (!enough) GTEST_SKIP() << "needs 10 GB of free memory";
}

}  // namespace
}  // namespace fourfold::test
