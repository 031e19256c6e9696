// Fills the table with CUDA's and NCCL's functions. The compiler compares the table with NVIDIA's
// headers here, which no other file includes.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "fourfold/comm/nccl/api.hpp"
#include "fourfold/comm/nccl/sum.hpp"

namespace fourfold::comm::nccl {

namespace {

static_assert(kSuccess == static_cast<int>(cudaSuccess));
static_assert(kSuccess == static_cast<int>(ncclSuccess));
static_assert(kInProgress == static_cast<int>(ncclInProgress));
static_assert(kNotReady == static_cast<int>(cudaErrorNotReady));
static_assert(kInt64 == static_cast<int>(ncclInt64));
static_assert(kFloat32 == static_cast<int>(ncclFloat32));
static_assert(kFloat64 == static_cast<int>(ncclFloat64));
static_assert(kBFloat16 == static_cast<int>(ncclBfloat16));
static_assert(kSum == static_cast<int>(ncclSum));
static_assert(kMax == static_cast<int>(ncclMax));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 26, 0), "kernels must start in one order");

cudaStream_t real(Stream stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t real_event(Event event) {
  return static_cast<cudaEvent_t>(event);
}
ncclComm_t real_comm(Comm comm) {
  return static_cast<ncclComm_t>(comm);
}
ncclDataType_t type_of(int type) {
  return static_cast<ncclDataType_t>(type);
}
ncclRedOp_t op_of(int op) {
  return static_cast<ncclRedOp_t>(op);
}

int create_stream(Stream* stream) {
  int least = 0;
  int greatest = 0;
  cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  cudaStream_t made = nullptr;
  if (error == cudaSuccess) {
    error = cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, greatest);
  }
  *stream = made;
  return static_cast<int>(error);
}

int create_event(Event* event) {
  cudaEvent_t made = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&made, cudaEventDefault);
  *event = made;
  return static_cast<int>(error);
}

int create_comm(Comm* comm, int size, const UniqueId& id, int rank, int max_ctas) {
  ncclUniqueId real_id;
  std::memcpy(real_id.internal, id.data(), id.size());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (max_ctas > 0) config.maxCTAs = max_ctas;
  ncclComm_t made = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&made, size, real_id, rank, &config);
  *comm = made;
  return static_cast<int>(result);
}

int state_of_comm(Comm comm, int* state) {
  ncclResult_t found = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(real_comm(comm), &found);
  *state = static_cast<int>(found);
  return static_cast<int>(result);
}

Api make_api() {
  // Kernels of several communicators start on every device in the order of the calls, so that they
  // cannot take each other's room; and communicators connect when they are made, not when they are
  // used first, where a rank would wait for others in the middle of its work. Settings of the user
  // come first.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  Api api;
  api.set_device = [](int device) { return static_cast<int>(cudaSetDevice(device)); };
  api.stream_create = create_stream;
  api.stream_destroy = [](Stream s) { return static_cast<int>(cudaStreamDestroy(real(s))); };
  api.stream_wait = [](Stream s, Event e) {
    return static_cast<int>(cudaStreamWaitEvent(real(s), real_event(e), 0));
  };
  api.stream_synchronize = [](Stream s) {
    return static_cast<int>(cudaStreamSynchronize(real(s)));
  };
  api.event_create = create_event;
  api.event_destroy = [](Event e) { return static_cast<int>(cudaEventDestroy(real_event(e))); };
  api.event_record = [](Event e, Stream s) {
    return static_cast<int>(cudaEventRecord(real_event(e), real(s)));
  };
  api.event_query = [](Event e) { return static_cast<int>(cudaEventQuery(real_event(e))); };
  api.event_synchronize = [](Event e) {
    return static_cast<int>(cudaEventSynchronize(real_event(e)));
  };
  api.event_elapsed = [](float* ms, Event from, Event to) {
    return static_cast<int>(cudaEventElapsedTime(ms, real_event(from), real_event(to)));
  };
  api.copy = [](void* to, const void* from, std::size_t bytes, Stream s) {
    return static_cast<int>(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, real(s)));
  };
  api.allocate = [](void** memory, std::size_t bytes, Stream s) {
    return static_cast<int>(cudaMallocAsync(memory, bytes, real(s)));
  };
  api.release = [](void* memory, Stream s) {
    return static_cast<int>(cudaFreeAsync(memory, real(s)));
  };
  api.cuda_error = [](int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); };
  api.get_unique_id = [](UniqueId* id) {
    ncclUniqueId made;
    const ncclResult_t result = ncclGetUniqueId(&made);
    std::memcpy(id->data(), made.internal, id->size());
    return static_cast<int>(result);
  };
  api.comm_create = create_comm;
  api.comm_state = state_of_comm;
  api.comm_finalize = [](Comm c) { return static_cast<int>(ncclCommFinalize(real_comm(c))); };
  api.comm_destroy = [](Comm c) { return static_cast<int>(ncclCommDestroy(real_comm(c))); };
  api.comm_abort = [](Comm c) { return static_cast<int>(ncclCommAbort(real_comm(c))); };
  api.group_start = [] { return static_cast<int>(ncclGroupStart()); };
  api.group_end = [] { return static_cast<int>(ncclGroupEnd()); };
  api.all_reduce = [](const void* in, void* out, std::size_t n, int t, int op, Comm c, Stream s) {
    return static_cast<int>(
        ncclAllReduce(in, out, n, type_of(t), op_of(op), real_comm(c), real(s)));
  };
  api.reduce_scatter = [](const void* in, void* out, std::size_t n, int t, int op, Comm c,
                          Stream s) {
    return static_cast<int>(
        ncclReduceScatter(in, out, n, type_of(t), op_of(op), real_comm(c), real(s)));
  };
  api.all_gather = [](const void* in, void* out, std::size_t n, int t, Comm c, Stream s) {
    return static_cast<int>(ncclAllGather(in, out, n, type_of(t), real_comm(c), real(s)));
  };
  api.broadcast = [](const void* in, void* out, std::size_t n, int t, int root, Comm c, Stream s) {
    return static_cast<int>(ncclBroadcast(in, out, n, type_of(t), root, real_comm(c), real(s)));
  };
  api.reduce = [](const void* in, void* out, std::size_t n, int t, int op, int root, Comm c,
                  Stream s) {
    return static_cast<int>(
        ncclReduce(in, out, n, type_of(t), op_of(op), root, real_comm(c), real(s)));
  };
  api.send = [](const void* in, std::size_t n, int t, int peer, Comm c, Stream s) {
    return static_cast<int>(ncclSend(in, n, type_of(t), peer, real_comm(c), real(s)));
  };
  api.recv = [](void* out, std::size_t n, int t, int peer, Comm c, Stream s) {
    return static_cast<int>(ncclRecv(out, n, type_of(t), peer, real_comm(c), real(s)));
  };
  api.nccl_error = [](int error) { return ncclGetErrorString(static_cast<ncclResult_t>(error)); };
  api.sum_bf16 = sum_bf16;
  return api;
}

}  // namespace

const Api& cuda_api() {
  static const Api api = make_api();
  return api;
}

}  // namespace fourfold::comm::nccl
