// The communicators of the stand-in, and what their kernels do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/stand_in_streams.hpp"

namespace fourfold::test::stand_in {

using comm::nccl::kBFloat16;
using comm::nccl::kFloat32;
using comm::nccl::kSum;

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

const char* name_of(Call::Kind kind);

/// Waits until `done()`, or until the communicator is aborted, or the deadline. True when it is
/// done.
bool wait_in(const CommState& comm, const std::string& what, const std::function<bool()>& done);

/// The body of a kernel, which is the `number`-th of its communicator and the `ticket`-th of its
/// device.
void run_kernel(CommState& comm, DeviceState& device, const std::vector<Call>& calls,
                std::uint64_t number, std::uint64_t ticket);

}  // namespace fourfold::test::stand_in
