// The functions of CUDA's runtime and of NCCL that the backend calls, as a table. NVIDIA's headers
// are not needed to compile the backend: cuda_api.cpp fills the table with the real functions, and
// tests fill it with those of a stand-in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fourfold::comm::nccl {

using Stream = void*;  ///< cudaStream_t
using Event = void*;   ///< cudaEvent_t
using Comm = void*;    ///< ncclComm_t
using UniqueId = std::array<char, 128>;

// Values of NVIDIA's enumerations. cuda_api.cpp compares them.
inline constexpr int kSuccess = 0;     ///< cudaSuccess, ncclSuccess
inline constexpr int kInProgress = 7;  ///< ncclInProgress
inline constexpr int kNotReady = 600;  ///< cudaErrorNotReady
inline constexpr int kInt64 = 4;       ///< of ncclDataType_t
inline constexpr int kFloat32 = 7;
inline constexpr int kFloat64 = 8;
inline constexpr int kBFloat16 = 9;
inline constexpr int kSum = 0;  ///< of ncclRedOp_t
inline constexpr int kMax = 2;

/// A sum of bf16 with a single rounding: out[i] = own[i] + parts[i] + parts[count + i] + ..., added
/// from left to right in f32. `out` may be `own`.
struct Bf16Sum {
  const void* own = nullptr;
  const void* parts = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  int parts_count = 0;
};

/// Functions return kSuccess or an error of their library. All of them return without waiting for a
/// stream, except for those that say so.
struct Api {
  // CUDA's runtime
  int (*set_device)(int device) = nullptr;         ///< for the calling thread
  int (*stream_create)(Stream* stream) = nullptr;  ///< of the highest priority, non-blocking
  int (*stream_destroy)(Stream stream) = nullptr;
  int (*stream_wait)(Stream stream, Event event) = nullptr;
  int (*stream_synchronize)(Stream stream) = nullptr;  ///< waits
  int (*event_create)(Event* event) = nullptr;         ///< with a time
  int (*event_destroy)(Event event) = nullptr;
  int (*event_record)(Event event, Stream stream) = nullptr;
  int (*event_query)(Event event) = nullptr;        ///< kSuccess or kNotReady
  int (*event_synchronize)(Event event) = nullptr;  ///< waits
  int (*event_elapsed)(float* milliseconds, Event from, Event to) = nullptr;
  int (*copy)(void* to, const void* from, std::size_t bytes, Stream stream) = nullptr;
  int (*allocate)(void** memory, std::size_t bytes, Stream stream) = nullptr;
  int (*release)(void* memory, Stream stream) = nullptr;
  const char* (*cuda_error)(int error) = nullptr;

  // NCCL. Communicators are of the kind that does not block: every call may return kInProgress,
  // and the call has happened when comm_state says that it no longer is.
  int (*get_unique_id)(UniqueId* id) = nullptr;
  int (*comm_create)(Comm* comm, int size, const UniqueId& id, int rank, int max_ctas) = nullptr;
  int (*comm_state)(Comm comm, int* state) = nullptr;
  int (*comm_finalize)(Comm comm) = nullptr;  ///< under way until all members have called it
  int (*comm_destroy)(Comm comm) = nullptr;   ///< of one that is finalized
  int (*comm_abort)(Comm comm) = nullptr;     ///< waits for kernels to give up
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void* in, void* out, std::size_t count, int type, int op, Comm comm,
                    Stream stream) = nullptr;
  int (*reduce_scatter)(const void* in, void* out, std::size_t out_count, int type, int op,
                        Comm comm, Stream stream) = nullptr;
  int (*all_gather)(const void* in, void* out, std::size_t in_count, int type, Comm comm,
                    Stream stream) = nullptr;
  int (*broadcast)(const void* in, void* out, std::size_t count, int type, int root, Comm comm,
                   Stream stream) = nullptr;
  int (*reduce)(const void* in, void* out, std::size_t count, int type, int op, int root, Comm comm,
                Stream stream) = nullptr;
  int (*send)(const void* in, std::size_t count, int type, int peer, Comm comm,
              Stream stream) = nullptr;
  int (*recv)(void* out, std::size_t count, int type, int peer, Comm comm, Stream stream) = nullptr;
  const char* (*nccl_error)(int error) = nullptr;

  // ours
  int (*sum_bf16)(const Bf16Sum& sum, Stream stream) = nullptr;
};

/// The real functions. Only in builds with FOURFOLD_CUDA.
const Api& cuda_api();

}  // namespace fourfold::comm::nccl
