// SPDX-License-Identifier: Apache-2.0
#include "tests/support/stand_in_kernels.hpp"

#include <algorithm>
#include <cstring>

#include "fourfold/base/bfloat16.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::test::stand_in {

using namespace comm::nccl;

const char* name_of(Call::Kind kind) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                    "reduce",     "send",           "recv"};
  return kNames[static_cast<int>(kind)];
}

bool wait_in(const CommState& comm, const std::string& what, const std::function<bool()>& done) {
  return until(what, done, [&] { return comm.aborted.load(); });
}

namespace {

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

}  // namespace

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

}  // namespace fourfold::test::stand_in
