// A stand-in for GPUs with NCCL, for tests on machines without. A stream is a thread that runs what
// it is given in order, each after a delay, and nothing else orders streams: a race that CUDA would
// allow is a race here, which ThreadSanitizer sees. Besides, when an operation is given to a stream
// the stand-in looks whether it is ordered with all others on the same memory, whatever the delays.
// Ranks are threads; the device of a thread is the one that it has chosen.
//
// The null stream is the calling thread itself. A rank that computes on it computes on the CPU, in
// main memory that counts as memory of its device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/comm/nccl/api.hpp"
#include "fourfold/comm/nccl/nccl.hpp"
#include "fourfold/comm/world.hpp"

namespace fourfold::test::stand_in {

struct Settings {
  unsigned seed = 1;     ///< of the delays
  int resident = 3;      ///< kernels of NCCL that a device has room for at once
  bool in_order = true;  ///< kernels start in the order of the calls: NCCL_LAUNCH_ORDER_IMPLICIT
  Seconds deadline{20};  ///< after which what waits counts as stuck, and everything ends
};

/// Mistakes that the stand-in makes in place of the backend, to show that they are found.
enum class Mistake {
  kNone,
  kLaneIgnoresCompute,  ///< a stream for communication does not wait for compute
  kComputeIgnoresLane,  ///< the compute stream does not wait for communication
  kWrongEvent,          ///< the compute stream waits for the event that it waited for before
  kEarlyRecord,         ///< an event is recorded before the operation that it is to follow
  kOtherCount,          ///< device 0 sums one element less
  kNoGroupEnd,          ///< device 0 does not launch a group
  kAbortMisses,         ///< device 0 does not abort its communicators
  kNeverSettles,        ///< the calls of device 0 to a communicator are under way for ever
  kCallBlocks,          ///< a call of device 0 returns when its communicator is aborted
  kCreateBlocks,        ///< device 0 never makes a communicator, and the call never returns
  kNeverFinalized       ///< the communicators of device 0 cannot be destroyed in peace
};

/// While it lives, the functions of `api` work; there is one at a time. All streams and
/// communicators must be gone when it is destroyed.
class Machine {
 public:
  explicit Machine(const Settings& settings, Mistake mistake = Mistake::kNone);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();

  /// What was found so far, each once: accesses to memory that are not ordered, operations that do
  /// not fit together or do not end.
  std::vector<std::string> faults() const;
  /// How many communicators have been made, and neither been destroyed nor aborted.
  int communicators() const;
};

const comm::nccl::Api& api();

/// A stream to compute on, which is a thread of its own. It ends with the machine.
comm::nccl::Stream make_compute_stream();

struct Range {
  const void* data = nullptr;
  std::int64_t bytes = 0;
  bool write = false;
};
/// Gives the stream a kernel, which says what memory it touches.
void launch(comm::nccl::Stream stream, const char* name, const std::vector<Range>& ranges,
            std::function<void()> body);

/// Gives the world of a rank its device, which computes on the null stream unless the options say
/// otherwise.
void use_device(comm::World& world, comm::nccl::Options options = {});

}  // namespace fourfold::test::stand_in
