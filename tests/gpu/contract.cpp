// The contract of communicators on GPUs, over NCCL: a program of its own, since tests run on
// machines without a GPU. Each rank takes a GPU:
//   mpirun -np 2 build/cuda/gpu_contract [exact|nccl]
// The word says how bf16 is summed (device.bf16_sums). The buffers lie in memory that both the host
// and the GPU use, so that the host makes and judges the values as it does everywhere.
// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/contract.hpp"

#include <cstdio>
#include <cuda_runtime_api.h>
#include <string>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/mpi/run.hpp"
#include "fourfold/comm/nccl/nccl.hpp"

#include "tests/comm/contract_values.hpp"
#include "tests/gpu/waiting_api.hpp"

namespace fourfold::test {

namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw Error(concat(what, ": ", cudaGetErrorString(error)));
}

/// The GPUs that this process sees.
int count_gpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    throw ConfigError(concat("there is no GPU to test: ", cudaGetErrorString(error)));
  }
  if (count == 0) throw ConfigError("there is no GPU that this process sees");
  return count;
}

int count_multiprocessors(int index) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, index), "ask the GPU");
  return count;
}

int choose_gpu(const comm::World& world) {
  const int count = count_gpus();
  int here = 0;
  for (int rank = 0; rank < world.rank(); ++rank) {
    here += world.host(rank) == world.host(world.rank()) ? 1 : 0;
  }
  if (count > 1 && here >= count) {
    throw ConfigError(concat("rank ", world.rank(), " is number ", here, " on its host, which has ",
                             count, " GPUs"));
  }
  const int index = count == 1 ? 0 : here;
  check(cudaSetDevice(index), "choose the GPU");
  int both = 0;
  check(cudaDeviceGetAttribute(&both, cudaDevAttrConcurrentManagedAccess, index), "ask the GPU");
  if (both == 0) throw ConfigError("the host cannot use memory of this GPU while the GPU works");
  return index;
}

void use_shared_memory() {
  contract_memory = comm::Memory::kDevice;
  contract_take = [](std::size_t bytes) {
    void* memory = nullptr;
    check(cudaMallocManaged(&memory, bytes), "allocate memory");
    return memory;
  };
  contract_give_back = [](void* memory) { static_cast<void>(cudaFree(memory)); };
}

void run_cases(comm::World& world) {
  const auto run = [&](const std::string& name, const auto& body) {
    body();
    if (world.rank() == 0) std::printf("%s: passed\n", name.c_str());
    std::fflush(stdout);
  };
  for (int size = 1; size <= world.size(); ++size) {
    run(concat("every operation on groups of ", size), [&] { check_operations(world, size, {}); });
  }
  run("lists", [&] { check_lists(world); });
  run("sends and receives", [&] { check_pairs(world); });
  const grid::Axes axes = {grid::Axis::kX, grid::Axis::kY, grid::Axis::kZ, grid::Axis::kData};
  for (const grid::Sizes& sizes : grid::factorisations(world.size(), axes)) {
    run(concat("many groups at once on ", grid::Grid(sizes)),
        [&] { check_many_groups(world, grid::Grid(sizes)); });
  }
  world.resolve();
}

int run(const std::string& sums) {
  const auto body = [&](comm::World& world) {
    if (sums != "exact" && sums != "nccl") throw ConfigError("usage: gpu_contract [exact|nccl]");
    const int index = choose_gpu(world);
    use_shared_memory();
    using comm::nccl::Bf16Sums;
    static const comm::nccl::Api api = waiting_api(comm::nccl::cuda_api());
    world.use_device(comm::nccl::open(
        api, {.device = index,
              .bf16_sums = sums == "exact" ? Bf16Sums::kRoundedOnce : Bf16Sums::kOfLibrary,
              .max_ctas = comm::nccl::max_ctas_of(count_multiprocessors(index))}));
    run_cases(world);
    if (world.rank() == 0) std::printf("all cases passed on %d GPUs\n", world.size());
  };
  const auto report = [](const std::string& line) {
    std::fprintf(stderr, "gpu_contract: %s\n", line.c_str());
  };
  return comm::mpi::run(body, report);
}

}  // namespace

}  // namespace fourfold::test

int main(int argc, char** argv) {
  return fourfold::test::run(argc > 1 ? argv[1] : "exact");
}
