// The contract on the NCCL backend, over the stand-in for GPUs.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/comm/contract.hpp"
#include "tests/comm/contract_values.hpp"
#include "tests/gpu/waiting_api.hpp"
#include "tests/support/stand_in.hpp"

namespace fourfold::test {
namespace {

using stand_in::Machine;
using stand_in::Settings;

#ifdef __SANITIZE_THREAD__
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif
const ContractSizes kSizes{.around_segment = false, .large_bytes = kSlow ? 1 << 16 : 1 << 20};
const ContractSizes kSmall{.counts = {0, 1, 30}, .around_segment = false, .large_bytes = 0};

/// Runs `body` on ranks with devices, and expects that nothing was found.
void on_devices(int ranks, const Settings& settings, const Body& body,
                const comm::nccl::Options& options = {}) {
  const Machine machine(settings);
  contract_memory = comm::Memory::kDevice;
  on_threads(ranks, [&](comm::World& world) {
    stand_in::use_device(world, options);
    body(world);
  });
  contract_memory = comm::Memory::kHost;
  EXPECT_EQ(machine.faults(), std::vector<std::string>());
}

class NcclContract : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclContract, testing::Values(1, 2, 3, 4, 7, 8));

/// Each gives other delays.
constexpr std::array<unsigned, 5> kSeeds = {1, 2, 3, 4, 5};

TEST_P(NcclContract, EveryOperation) {
  for (const unsigned seed : kSeeds) {
    on_devices(GetParam(), {.seed = seed},
               [](comm::World& world) { check_operations(world, world.size(), kSizes); });
  }
}
TEST_P(NcclContract, Lists) {
  for (const unsigned seed : kSeeds) on_devices(GetParam(), {.seed = seed}, check_lists);
}
// Every rank sends to all others at once, which needs room for all these kernels.
TEST_P(NcclContract, Pairs) {
  if (GetParam() > 4) GTEST_SKIP() << "too many kernels for a small machine";
  for (const unsigned seed : kSeeds) {
    on_devices(GetParam(), {.seed = seed, .resident = 128}, check_pairs);
  }
}

TEST(NcclContractGroups, UnevenGroupsAtOnce) {
  for (const unsigned seed : kSeeds) {
    on_devices(5, {.seed = seed}, [](comm::World& world) {
      for (const int size : {2, 3}) check_operations(world, size, kSmall);
    });
  }
}

/// Operations of many groups at once, with little room for their kernels: as ranks issue them in
/// one order, and kernels start in this order, none takes the room of another.
TEST(NcclContractGroups, ManyAtOnce) {
  for (const int resident : {3, 1}) {
    for (const unsigned seed : kSeeds) {
      on_devices(8, {.seed = seed, .resident = resident}, [](comm::World& world) {
        check_many_groups(world, grid::Grid({.x = 2, .y = 2, .z = 2}), 2);
      });
    }
  }
}

/// As the program for real GPUs does it (tests/gpu): compute runs beside the host, which reads the
/// results after it has waited. A wait that is missing leaves it with memory that is not written
/// yet.
TEST(NcclContractOfGpus, TheHostReadsWhatItHasWaitedFor) {
  for (const int ranks : {1, 3}) {
    for (const unsigned seed : {1U, 2U}) {
      const Machine machine({.seed = seed, .resident = 128});
      const comm::nccl::Api api = waiting_api(stand_in::api());
      contract_memory = comm::Memory::kDevice;
      on_threads(ranks, [&](comm::World& world) {
        stand_in::api().set_device(world.rank());
        waiting_stream = stand_in::make_compute_stream();
        const auto compute_stream = [] { return waiting_stream; };
        world.use_device(
            comm::nccl::open(api, {.device = world.rank(), .compute_stream = compute_stream}));
        for (int size = 1; size <= world.size(); ++size) check_operations(world, size, kSmall);
        check_lists(world);
        check_pairs(world);
        check_many_groups(world, grid::Grid({.x = world.size()}), 2);
        world.resolve();
      });
      contract_memory = comm::Memory::kHost;
      EXPECT_EQ(machine.faults(), std::vector<std::string>());
    }
  }
}

/// Kernels of as many communicators as the stand-in has room for (Settings::resident) fit.
TEST(NcclContractOptions, KernelsOfThreeCommunicatorsFit) {
  for (const int multiprocessors : {3, 40, 108, 132, 148}) {
    const int most = comm::nccl::max_ctas_of(multiprocessors);
    EXPECT_GE(most, 1);
    EXPECT_LE(Settings().resident * most, multiprocessors);
  }
  EXPECT_EQ(comm::nccl::max_ctas_of(40), 13);
  EXPECT_EQ(comm::nccl::max_ctas_of(132), 32);
}

/// Numbers whose sums round.
BFloat16 rough(int rank, std::int64_t i) {
  return to_bfloat16(static_cast<float>(std::sin(static_cast<double>(i) * 0.7 + rank * 1.3) *
                                        std::pow(10.0, rank % 4)));
}

/// The sum of element `i`, added from the owner of its chunk backwards and rounded once.
BFloat16 sum_of(std::int64_t i, std::int64_t count, int ranks) {
  int owner = 0;
  while (schedule::chunk_of(count, ranks, owner).end <= i) ++owner;
  float sum = to_float(rough(owner, i));
  for (int back = 1; back < ranks; ++back)
    sum += to_float(rough((owner - back + ranks) % ranks, i));
  return to_bfloat16(sum);
}

TEST(NcclContractSums, OfBf16AreRoundedOnce) {
  constexpr std::int64_t kCount = 1000;  // which 3 does not divide
  for (const int ranks : {2, 3, 5}) {
    on_devices(ranks, {}, [](comm::World& world) {
      const comm::Communicator all = world.communicator(everyone(world));
      std::vector<BFloat16> data;
      for (std::int64_t i = 0; i < kCount; ++i) data.push_back(rough(world.rank(), i));
      std::vector<BFloat16> rooted(world.rank() == 1 ? kCount : 0);
      all.reduce(view(data), view(rooted), 1).wait();
      all.all_reduce(view(data)).wait();
      bool right = true;
      for (std::int64_t i = 0; i < kCount; ++i) {
        const BFloat16 sum = sum_of(i, kCount, world.size());
        right = right && data[static_cast<std::size_t>(i)] == sum &&
                (rooted.empty() || rooted[static_cast<std::size_t>(i)] == sum);
      }
      expect_on_all_ranks(world, right, "a sum is not as documented");
    });
  }
}

/// Whoever opens the device may say where the memory of these sums comes from.
TEST(NcclContractSums, TakeTheirMemoryFromTheCaller) {
  std::atomic<std::int64_t> taken = 0;
  std::atomic<std::int64_t> held = 0;
  const auto take = [&](std::size_t bytes, comm::nccl::Stream stream) {
    void* memory = nullptr;
    stand_in::api().allocate(&memory, bytes, stream);
    taken += static_cast<std::int64_t>(bytes);
    ++held;
    return memory;
  };
  const auto give_back = [&](void* memory, comm::nccl::Stream stream) {
    --held;
    stand_in::api().release(memory, stream);
  };
  on_devices(2, {},
             [](comm::World& world) {
               const comm::Communicator all = world.communicator(everyone(world));
               std::vector<BFloat16> data(100, to_bfloat16(1));
               all.all_reduce(view(data)).wait();
             },
             {.scratch = {take, give_back}});
  EXPECT_EQ(taken, 2 * 50 * 2);  // half of the elements on each rank, of two bytes
  EXPECT_EQ(held, 0);
}

TEST(NcclContractSums, OfBf16CanBeTheLibrarys) {
  on_devices(3, {}, [](comm::World& world) { check_operations(world, world.size(), kSmall); },
             {.bf16_sums = comm::nccl::Bf16Sums::kOfLibrary});
}

}  // namespace
}  // namespace fourfold::test
