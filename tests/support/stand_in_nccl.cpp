// The communicators of the stand-in. Kernels of a communicator run one after the other, whatever
// their streams, and a kernel runs where its device has room for it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/nccl/sum_body.hpp"

#include "tests/support/stand_in_streams.hpp"

namespace fourfold::test::stand_in {

using namespace comm::nccl;

namespace {

struct CommState;

struct Call {
  enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kSend, kRecv };
  Kind kind = Kind::kAllReduce;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  int type = kFloat32;
  int op = kSum;
  int root = 0;  ///< or the peer
  CommState* comm = nullptr;
  StreamState* stream = nullptr;
  std::uint64_t number = 0;  ///< of a collective, in its communicator

  bool pair() const { return kind == Kind::kSend || kind == Kind::kRecv; }
  std::size_t bytes() const {
    return count * (type == kBFloat16 ? 2U : type == kFloat32 ? 4U : 8U);
  }
};

const char* name_of(Call::Kind kind) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                    "reduce",     "send",           "recv"};
  return kNames[static_cast<int>(kind)];
}

struct Post {
  const void* data = nullptr;
  std::size_t bytes = 0;
  bool taken = false;
};
struct Meeting {
  std::vector<Call> calls;
  int arrived = 0;
  int read = 0;
  bool broken = false;  ///< a rank has left before all were there
};
/// What the members of a communicator share.
struct Shared {
  int size = 0;
  std::atomic<int> joined{0};
  std::atomic<int> finalized{0};
  std::mutex mutex;
  std::map<std::uint64_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Post>>> mail;
};

struct CommState {
  std::shared_ptr<Shared> shared;
  int rank = 0;
  int device = 0;
  std::uint64_t collectives = 0;
  std::uint64_t issued = 0;
  std::atomic<std::uint64_t> finished{0};
  std::atomic<bool> aborted{false};
  std::atomic<bool> destroyed{false};
  std::atomic<bool> called{false};
  std::atomic<bool> finalized{false};
  Known known;
};

std::mutex comms_mutex;
std::map<std::string, std::shared_ptr<Shared>> shared_by_id;
std::deque<CommState> comms;
thread_local int depth = 0;
thread_local std::vector<Call> grouped;

bool wait_in(const CommState& comm, const std::string& what, const std::function<bool()>& done) {
  return until(what, done, [&] { return comm.aborted.load(); });
}

template <class T>
T combine(int op, T a, T b) {
  if (op == kSum) return static_cast<T>(a + b);
  return a > b || b != b ? a : b;  // as NCCL: the maximum of a number and NaN is the number
}
BFloat16 combine(int op, BFloat16 a, BFloat16 b) {
  return to_bfloat16(combine(op, to_float(a), to_float(b)));  // rounded at every step, as NCCL
}

template <class T>
void reduce_as(const std::vector<Call>& calls, std::size_t first, std::size_t count,
               std::vector<char>& out) {
  auto* sum = reinterpret_cast<T*>(out.data());
  for (std::size_t c = 0; c < calls.size(); ++c) {
    const T* in = static_cast<const T*>(calls[c].in) + first;
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] = c == 0 ? in[i] : combine(calls[0].op, sum[i], in[i]);
    }
  }
}

/// What the rank of `call` gets; empty: nothing.
std::vector<char> result_of(const Call& call, const std::vector<Call>& calls) {
  const auto rank = static_cast<std::size_t>(call.comm->rank);
  std::vector<char> result(call.bytes() * (call.kind == Call::Kind::kAllGather ? calls.size() : 1));
  switch (call.kind) {
    case Call::Kind::kAllGather:
      for (std::size_t r = 0; r < calls.size(); ++r) {
        std::memcpy(result.data() + r * call.bytes(), calls[r].in, call.bytes());
      }
      return result;
    case Call::Kind::kBroadcast:
      std::memcpy(result.data(), calls[static_cast<std::size_t>(call.root)].in, call.bytes());
      return call.comm->rank == call.root && call.in == call.out ? std::vector<char>() : result;
    case Call::Kind::kReduce:
      if (call.comm->rank != call.root) return {};
      break;
    default:
      break;
  }
  const std::size_t first = call.kind == Call::Kind::kReduceScatter ? rank * call.count : 0;
  if (call.type == kFloat64) reduce_as<double>(calls, first, call.count, result);
  if (call.type == kFloat32) reduce_as<float>(calls, first, call.count, result);
  if (call.type == kInt64) reduce_as<std::int64_t>(calls, first, call.count, result);
  if (call.type == kBFloat16) reduce_as<BFloat16>(calls, first, call.count, result);
  return result;
}

/// Brings the ranks together. False: not all of them came, and this one has given up.
bool meet(const Call& call) {
  Shared& shared = *call.comm->shared;
  {
    const std::lock_guard lock(shared.mutex);
    Meeting& meeting = shared.meetings[call.number];
    meeting.calls.resize(static_cast<std::size_t>(shared.size));
    meeting.calls[static_cast<std::size_t>(call.comm->rank)] = call;
    ++meeting.arrived;
  }
  const auto complete = [&] {
    const std::lock_guard lock(shared.mutex);
    const Meeting& meeting = shared.meetings[call.number];
    return meeting.arrived == shared.size && !meeting.broken;
  };
  if (wait_in(*call.comm,
              concat(name_of(call.kind), " number ", call.number, " of rank ", call.comm->rank,
                     " of ", shared.size),
              complete)) {
    return true;
  }
  const std::lock_guard lock(shared.mutex);
  Meeting& meeting = shared.meetings[call.number];
  if (meeting.arrived == shared.size && !meeting.broken) return true;
  meeting.broken = true;
  return false;
}

void collective(const Call& call) {
  if (!meet(call)) return;
  Shared& shared = *call.comm->shared;
  std::vector<Call> calls;
  {
    const std::lock_guard lock(shared.mutex);
    calls = shared.meetings[call.number].calls;
  }
  for (const Call& other : calls) {
    if (other.kind == call.kind && other.count == call.count && other.type == call.type &&
        other.op == call.op && other.root == call.root) {
      continue;
    }
    state().fault(concat("ranks call ", name_of(call.kind), " with other arguments"));
    wait_in(*call.comm, "ranks with other arguments", [] { return false; });
    return;
  }
  const std::vector<char> result = result_of(call, calls);
  {
    const std::lock_guard lock(shared.mutex);
    ++shared.meetings[call.number].read;
  }
  // Only when nobody needs the inputs any more, even if everything is aborted now.
  const bool all_have_read = until("ranks that read", [&] {
    const std::lock_guard lock(shared.mutex);
    return shared.meetings[call.number].read == shared.size;
  });
  if (all_have_read && !result.empty()) std::memcpy(call.out, result.data(), result.size());
}

void exchange(const std::vector<Call>& calls) {
  std::vector<std::shared_ptr<Post>> posts;
  Shared& shared = *calls.front().comm->shared;
  const CommState& comm = *calls.front().comm;
  for (const Call& call : calls) {
    if (call.kind != Call::Kind::kSend) continue;
    posts.push_back(std::make_shared<Post>(Post{call.in, call.bytes()}));
    const std::lock_guard lock(shared.mutex);
    shared.mail[{comm.rank, call.root}].push_back(posts.back());
  }
  for (const Call& call : calls) {
    if (call.kind != Call::Kind::kRecv) continue;
    wait_in(comm, concat("recv of rank ", comm.rank, " from ", call.root), [&] {
      const std::lock_guard lock(shared.mutex);
      auto& box = shared.mail[{call.root, comm.rank}];
      if (box.empty()) return false;
      Post& post = *box.front();
      if (post.bytes != call.bytes()) {
        state().fault("a message has another size than its receiver expects");
      } else {
        std::memcpy(call.out, post.data, post.bytes);
      }
      post.taken = true;
      box.pop_front();
      return true;
    });
  }
  for (const auto& post : posts) {
    wait_in(comm, concat("send of rank ", comm.rank), [&] {
      const std::lock_guard lock(shared.mutex);
      return post->taken;
    });
  }
}

void run_kernel(CommState& comm, DeviceState& device, const std::vector<Call>& calls,
                std::uint64_t number, std::uint64_t ticket) {
  const Settings& settings = state().settings;
  bool runs = wait_in(comm, "a kernel behind one of its communicator",
                      [&] { return comm.finished.load(std::memory_order_acquire) == number; });
  if (settings.in_order) {
    runs = runs && wait_in(comm, "a kernel behind one of its device that has not started",
                           [&] { return device.started == ticket; });
  }
  runs = runs && wait_in(comm, "a kernel without room on its device", [&] {
           int running = device.running;
           return running < settings.resident &&
                  device.running.compare_exchange_strong(running, running + 1);
         });
  ++device.started;
  if (runs) {
    if (calls.front().pair()) {
      exchange(calls);
    } else {
      for (const Call& call : calls) collective(call);
    }
    --device.running;
  }
  comm.finished.store(number + 1, std::memory_order_release);
}

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

int create(Comm* comm, int size, const UniqueId& id, int rank, int) {
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
  of.aborted = true;
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
    of.destroyed = true;
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
