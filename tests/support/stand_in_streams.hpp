// The streams, events and checks of the stand-in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/stand_in.hpp"

namespace fourfold::test::stand_in {

/// Of each stream, the operations that are known to come before.
using Known = std::map<const void*, std::uint64_t>;
void join(Known& to, const Known& from);

struct StreamState {
  struct Item {
    std::function<void()> run;
    std::atomic<Item*> next{nullptr};
  };

  int device = 0;
  unsigned serial = 0;  ///< of the streams of the device
  bool host = false;    ///< the calling thread itself
  bool compute = false;
  Known known;
  std::uint64_t issued = 0;
  std::multimap<std::size_t, void*> free;   ///< memory that the stream has given back
  std::vector<std::function<void()>> held;  ///< for Mistake::kEarlyRecord
  Item* tail = nullptr;
  std::thread worker;

  explicit StreamState(bool on_host);
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;
  ~StreamState();
  void push(std::function<void()> run);
};

struct EventState {
  std::uint64_t recorded = 0;
  int device = 0;
  Known known;
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::int64_t> at{0};  ///< nanoseconds
};

struct Access {
  const char* begin = nullptr;
  const char* end = nullptr;
  bool write = false;
  const void* stream = nullptr;
  std::uint64_t number = 0;
  std::string name;
};

struct DeviceState {
  std::mutex mutex;  ///< between the threads of one rank that give streams something to do
  Known host;        ///< what the host has waited for
  std::vector<Access> history;
  StreamState null{true};
  std::shared_ptr<EventState> waited;  ///< the event that compute waited for last
  std::atomic<int> running{0};
  std::uint64_t tickets = 0;  ///< kernels in the order of the calls, and how many have started
  std::atomic<std::uint64_t> started{0};
  unsigned streams = 0;  ///< made so far
  bool spoiled = false;  ///< a mistake that is made once has been made
};

/// Of a call that fails.
inline constexpr int kUnknownError = 999;

/// All of the stand-in.
struct State {
  Settings settings;
  Mistake mistake = Mistake::kNone;
  std::deque<DeviceState> devices;
  std::atomic<bool> stuck{false};
  std::atomic<int> communicators{0};  ///< made, and neither destroyed nor aborted
  std::atomic<int> blocked{0};        ///< calls that do not return before `ends`
  std::atomic<bool> ends{false};
  std::mutex fault_mutex;
  std::vector<std::string> faults;
  std::vector<std::unique_ptr<StreamState>> compute;

  State(const Settings& from, Mistake made) : settings(from), mistake(made), devices(64) {
    for (std::size_t i = 0; i < devices.size(); ++i) devices[i].null.device = static_cast<int>(i);
  }
  void fault(const std::string& text);
};

State& state();
int current_device();
void choose_device(int device);
StreamState& real(comm::nccl::Stream stream);
void nap(unsigned microseconds);

/// Waits until `done()`, or until `ended()` or the deadline. True when it is done.
bool until(
    const std::string& what, const std::function<bool()>& done,
    const std::function<bool()>& ended = [] { return false; });

/// Gives the operation to the stream, and looks whether it is ordered with all others on its
/// memory. `also` is what is known besides, and then what is known after it.
void enqueue(StreamState& stream, const std::string& name, const std::vector<Range>& ranges,
             Known* also, std::function<void()> body, bool slow = true);

void fill_streams(comm::nccl::Api& api);
void fill_nccl(comm::nccl::Api& api);
void forget_communicators();

}  // namespace fourfold::test::stand_in
