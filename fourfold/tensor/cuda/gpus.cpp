// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/gpus.hpp"

#include <algorithm>
#include <array>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <ATen/Context.h>
#include <c10/core/AutogradState.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include "fourfold/base/check.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/nccl/nccl.hpp"
#include "fourfold/tensor/architectures.hpp"
#include "fourfold/tensor/cuda/memory.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::tensor {

namespace {

/// What the kernels of this program were compiled for.
constexpr const char* kBuiltFor = FOURFOLD_CUDA_ARCHITECTURES;

std::string version(int number) {
  return concat(number / 1000, ".", number % 1000 / 10);
}

Gpu describe(int index, int count) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  Gpu gpu;
  gpu.name = properties.name;
  gpu.architecture = concat("sm_", properties.major, properties.minor);
  gpu.memory = Bytes(static_cast<std::int64_t>(properties.totalGlobalMem));
  std::array<char, 32> bus{};
  C10_CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index));
  gpu.bus = bus.data();
  for (int other = 0; other < count; ++other) {
    int direct = 0;
    if (other == index) continue;
    C10_CUDA_CHECK(cudaDeviceCanAccessPeer(&direct, index, other));
    if (direct != 0) gpu.peers.push_back(other);
  }
  if (!runs_on(kBuiltFor, properties.major, properties.minor)) {
    gpu.misfit = concat(gpu.name, " is of architecture ", gpu.architecture,
                        ", and this program was built for ", name_architectures(kBuiltFor),
                        "; configure it with -DCMAKE_CUDA_ARCHITECTURES=", properties.major,
                        properties.minor);
  }
  return gpu;
}

/// Why CUDA sees no GPU; empty if it sees one.
std::string missing(cudaError_t error, int count) {
  if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (driver == 0) return "there is no NVIDIA driver on this host";
    return concat("the NVIDIA driver of this host is for CUDA ", version(driver),
                  ", and this program needs one for ", version(CUDART_VERSION));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    return "there is no GPU that this process sees (CUDA_VISIBLE_DEVICES may hide them)";
  }
  return error == cudaSuccess ? std::string()
                              : concat("CUDA does not start: ", cudaGetErrorString(error));
}

/// Starts CUDA in libtorch, whose allocator may be used only then, and turns off what computes with
/// fewer digits than tensors have: libtorch would convolve float32 in TF32, and let cuBLAS round
/// parts of sums to bf16. Gradients of convolutions must not depend on which thread adds first.
void start_libtorch() {
  at::Context& context = at::globalContext();
  context.lazyInitDevice(c10::kCUDA);
  context.setAllowTF32CuDNN(false);
  context.setAllowBF16ReductionCuBLAS(false);
  context.setDeterministicCuDNN(true);
}

/// Memory of libtorch's allocator, so that it is counted and limited with that of tensors, and
/// tensors can have what is not needed any more.
comm::nccl::ScratchMemory scratch_memory() {
  return {.take =
              [](std::size_t bytes, comm::nccl::Stream stream) {
                const MemoryScope scope(MemoryClass::kCommunication);
                return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(
                    bytes, static_cast<cudaStream_t>(stream));
              },
          .give_back =
              [](void* memory, comm::nccl::Stream /*stream*/) {
                c10::cuda::CUDACachingAllocator::raw_delete(memory);
              }};
}

comm::nccl::Options options_of(const GpuUse& use) {
  using comm::nccl::Bf16Sums;
  const auto number = static_cast<c10::DeviceIndex>(use.index);
  int multiprocessors = 0;
  C10_CUDA_CHECK(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, use.index));
  return {.device = use.index,
          .compute_stream =
              [number] {
                return static_cast<comm::nccl::Stream>(
                    c10::cuda::getCurrentCUDAStream(number).stream());
              },
          .bf16_sums = use.exact_bf16_sums ? Bf16Sums::kRoundedOnce : Bf16Sums::kOfLibrary,
          .scratch = scratch_memory(),
          .max_ctas = comm::nccl::max_ctas_of(multiprocessors)};
}

}  // namespace

Gpus find_gpus() {
  Gpus gpus;
  int nccl = 0;
  static_cast<void>(ncclGetVersion(&nccl));
  gpus.backend =
      concat("CUDA ", version(CUDART_VERSION), ", NCCL ", nccl / 10000, ".", nccl % 10000 / 100,
             ".", nccl % 100, ", for ", name_architectures(kBuiltFor));
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  gpus.missing = missing(error, count);
  if (!gpus.missing.empty()) {
    static_cast<void>(cudaGetLastError());  // or a later call would report this error
    return gpus;
  }
  for (int index = 0; index < count; ++index) gpus.list.push_back(describe(index, count));
  return gpus;
}

c10::Device use_gpu(comm::World& world, const GpuUse& use) {
  const auto number = static_cast<c10::DeviceIndex>(use.index);
  c10::cuda::set_device(number);
  start_libtorch();
  // Nodes of the graph run in the thread that calls backward, as on the processor: the classes of
  // memory and the names of layers and phases belong to a thread.
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  count_gpu_memory();
  if (use.limit > Bytes()) {
    std::size_t free = 0;
    std::size_t total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const double share = static_cast<double>(use.limit.value()) / static_cast<double>(total);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(1.0, share), number);
  }
  if (!world.has_device()) {
    world.use_device(comm::nccl::open(comm::nccl::cuda_api(), options_of(use)));
  }
  return {c10::kCUDA, number};
}

}  // namespace fourfold::tensor
