// The calls of NCCL in the stand-in. Kernels of a communicator run one after the other, whatever
// their streams, and a kernel runs where its device has room for it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/nccl/sum_body.hpp"

#include "tests/support/stand_in_kernels.hpp"

namespace fourfold::test::stand_in {

using namespace comm::nccl;

namespace {

std::mutex comms_mutex;
std::map<std::string, std::shared_ptr<Shared>> shared_by_id;
std::deque<CommState> comms;
thread_local int depth = 0;
thread_local std::vector<Call> grouped;

/// What was grouped, as one kernel for each communicator.
int submit() {
  std::vector<std::pair<CommState*, std::vector<Call>>> by_comm;
  for (Call& call : std::exchange(grouped, {})) {
    const auto found =
        std::ranges::find_if(by_comm, [&](const auto& each) { return each.first == call.comm; });
    if (!call.pair()) call.number = call.comm->collectives++;
    if (found != by_comm.end()) {
      found->second.push_back(call);
    } else {
      by_comm.push_back({call.comm, {call}});
    }
  }
  for (auto& [comm, calls] : by_comm) {
    const auto size = static_cast<std::int64_t>(comm->shared->size);
    std::vector<Range> ranges;
    for (const Call& call : calls) {
      const auto bytes = static_cast<std::int64_t>(call.bytes());
      const bool all_in = call.kind == Call::Kind::kReduceScatter;
      const bool all_out = call.kind == Call::Kind::kAllGather;
      const bool reads = call.kind != Call::Kind::kBroadcast || comm->rank == call.root;
      const bool writes = call.kind == Call::Kind::kBroadcast ? comm->rank != call.root
                          : call.kind == Call::Kind::kReduce  ? comm->rank == call.root
                                                              : true;
      if (call.in != nullptr && reads)
        ranges.push_back({call.in, bytes * (all_in ? size : 1), false});
      if (call.out != nullptr && writes)
        ranges.push_back({call.out, bytes * (all_out ? size : 1), true});
    }
    StreamState& stream = *calls.front().stream;
    DeviceState& device = state().devices[static_cast<std::size_t>(stream.device)];
    const auto give = [=, &stream, &device, comm = comm, calls = calls] {
      enqueue(stream, name_of(calls.front().kind), ranges, &comm->known,
              [comm, calls, &device, number = comm->issued++, ticket = device.tickets++] {
                run_kernel(*comm, device, calls, number, ticket);
              });
    };
    if (state().mistake == Mistake::kEarlyRecord) {
      stream.held.push_back(give);
    } else {
      give();
    }
  }
  return kSuccess;
}

int add(Call call, Comm comm, Stream stream) {
  call.comm = static_cast<CommState*>(comm);
  call.stream = &real(stream);
  FOURFOLD_CHECK(!call.comm->aborted && !call.comm->destroyed, "a communicator that is gone");
  DeviceState& device = state().devices[static_cast<std::size_t>(call.comm->device)];
  if (state().mistake == Mistake::kOtherCount && call.comm->device == 0 && call.count > 1 &&
      !std::exchange(device.spoiled, true)) {
    --call.count;
  }
  call.comm->called = true;
  grouped.push_back(call);
  return depth > 0 ? kSuccess : submit();
}

/// A call that returns only when the machine ends. Nothing of it is touched after that.
int block() {
  State& all = state();
  ++all.blocked;
  while (!all.ends) nap(400);
  --all.blocked;
  return kUnknownError;
}

int create(Comm* comm, int size, const UniqueId& id, int rank, int) {
  if (state().mistake == Mistake::kCreateBlocks && current_device() == 0) return block();
  const std::lock_guard lock(comms_mutex);
  auto& shared = shared_by_id[id.data()];
  if (!shared) {
    shared = std::make_shared<Shared>();
    shared->size = size;
  }
  CommState& made = comms.emplace_back();
  made.shared = shared;
  made.rank = rank;
  made.device = current_device();
  ++shared->joined;
  ++state().communicators;
  *comm = &made;
  return kInProgress;
}

int state_of(Comm comm, int* found) {
  const auto& of = *static_cast<CommState*>(comm);
  // Relaxed: whoever asks learns nothing of what streams have done.
  const bool waits = of.shared->joined.load(std::memory_order_relaxed) < of.shared->size;
  const bool hangs = state().mistake == Mistake::kNeverSettles && of.device == 0 && of.called;
  const bool closes = of.finalized && (of.shared->finalized < of.shared->size ||
                                       state().mistake == Mistake::kNeverFinalized);
  *found = waits || hangs || closes ? kInProgress : kSuccess;
  return kSuccess;
}

int abort_comm(Comm comm) {
  auto& of = *static_cast<CommState*>(comm);
  if (state().mistake == Mistake::kAbortMisses && of.device == 0) return kSuccess;
  if (!of.aborted.exchange(true)) --state().communicators;
  return kSuccess;
}

int end_group() {
  if (--depth > 0) return kSuccess;
  if (state().mistake == Mistake::kNoGroupEnd && !grouped.empty()) {
    const auto device = static_cast<std::size_t>(grouped.front().comm->device);
    if (device == 0 && !std::exchange(state().devices[device].spoiled, true)) {
      grouped.clear();
      return kSuccess;
    }
  }
  if (state().mistake == Mistake::kCallBlocks && !grouped.empty()) {
    const CommState& comm = *grouped.front().comm;
    if (comm.device == 0) wait_in(comm, "a call that blocks", [] { return false; });
  }
  return submit();
}

int run_sum(const Bf16Sum& sum, Stream stream) {
  const std::int64_t bytes = sum.count * 2;
  launch(stream, "sum",
         {{sum.own, bytes, false},
          {sum.parts, bytes * sum.parts_count, false},
          {sum.out, bytes, true}},
         [sum] {
           for (std::int64_t i = 0; i < sum.count; ++i) sum_element(sum, i);
         });
  return kSuccess;
}

}  // namespace

void forget_communicators() {
  const std::lock_guard lock(comms_mutex);
  comms.clear();
  shared_by_id.clear();
}

void fill_nccl(Api& api) {
  using Kind = Call::Kind;
  api.get_unique_id = [](UniqueId* id) {
    static std::atomic<int> next{0};
    std::snprintf(id->data(), id->size(), "communicator %d", next++);
    return kSuccess;
  };
  api.comm_create = create;
  api.comm_state = state_of;
  api.comm_finalize = [](Comm comm) {
    auto& of = *static_cast<CommState*>(comm);
    if (!of.finalized.exchange(true)) ++of.shared->finalized;
    return kInProgress;
  };
  api.comm_destroy = [](Comm comm) {
    auto& of = *static_cast<CommState*>(comm);
    FOURFOLD_CHECK(of.finalized, "a communicator is destroyed before it is finalized");
    if (!of.destroyed.exchange(true)) --state().communicators;
    return kSuccess;
  };
  api.comm_abort = abort_comm;
  api.group_start = [] {
    ++depth;
    return kSuccess;
  };
  api.group_end = end_group;
  api.all_reduce = [](const void* in, void* out, std::size_t n, int type, int op, Comm c,
                      Stream s) {
    return add({Kind::kAllReduce, in, out, n, type, op}, c, s);
  };
  api.reduce_scatter = [](const void* in, void* out, std::size_t n, int type, int op, Comm c,
                          Stream s) {
    return add({Kind::kReduceScatter, in, out, n, type, op}, c, s);
  };
  api.all_gather = [](const void* in, void* out, std::size_t n, int type, Comm c, Stream s) {
    return add({Kind::kAllGather, in, out, n, type}, c, s);
  };
  api.broadcast = [](const void* in, void* out, std::size_t n, int type, int root, Comm c,
                     Stream s) {
    return add({Kind::kBroadcast, in, out, n, type, kSum, root}, c, s);
  };
  api.reduce = [](const void* in, void* out, std::size_t n, int type, int op, int root, Comm c,
                  Stream s) {
    return add({Kind::kReduce, in, out, n, type, op, root}, c, s);
  };
  api.send = [](const void* in, std::size_t n, int type, int peer, Comm c, Stream s) {
    return add({Kind::kSend, in, nullptr, n, type, kSum, peer}, c, s);
  };
  api.recv = [](void* out, std::size_t n, int type, int peer, Comm c, Stream s) {
    return add({Kind::kRecv, nullptr, out, n, type, kSum, peer}, c, s);
  };
  api.nccl_error = [](int) { return "an error of the stand-in"; };
  api.sum_bf16 = run_sum;
}

}  // namespace fourfold::test::stand_in
