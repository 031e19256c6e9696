// The place where ranks that are threads leave their messages for each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/comm/position.hpp"

namespace fourfold::comm::thread {

/// One side of a message. The other side's thread copies the data and sets `state`.
struct Message {
  enum class State : std::uint8_t { kPending, kDone, kWrongSize };

  std::byte* data = nullptr;  ///< only read by a send
  std::size_t bytes = 0;
  std::size_t other_bytes = 0;  ///< the other side's, when the sizes differ
  int peer = 0;
  int owner = 0;
  std::atomic<State> state{State::kPending};
};

class Hub {
 public:
  explicit Hub(int ranks) : boxes_(static_cast<std::size_t>(ranks)) {}

  int size() const { return static_cast<int>(boxes_.size()); }

  /// Matches the message with its other side, or keeps it until the other side is posted. Throws
  /// CommError after a failure.
  void post_send(Message& message, int tag);
  void post_receive(Message& message, int tag);

  void send_control(const ControlMessage& message, int peer);
  std::optional<ControlMessage> receive_control(int rank);

  /// From now on no rank touches the buffers of another rank and every call throws. Only the first
  /// failure is kept.
  void fail(int rank, const std::string& reason);
  void throw_if_failed() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  int culprit() const { return culprit_; }  ///< after a failure

  std::uint64_t activity(int rank) const;
  /// Returns when the activity of the rank differs from `seen`, or after a while.
  void await_activity(int rank, std::uint64_t seen);

 private:
  struct Waiting {
    std::deque<Message*> sends;
    std::deque<Message*> receives;
  };
  struct Box {  // the messages for one rank
    std::mutex mutex;
    std::map<std::pair<int, int>, Waiting> waiting;  // by sender and tag
    std::deque<ControlMessage> control;
    std::mutex activity_mutex;
    std::condition_variable active;
    std::atomic<std::uint64_t> activity{0};
  };

  Box& box(int rank) { return boxes_[static_cast<std::size_t>(rank)]; }
  const Box& box(int rank) const { return boxes_[static_cast<std::size_t>(rank)]; }
  void complete(Message& send, Message& receive);
  void notify(int rank);

  std::deque<Box> boxes_;
  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  std::string reason_;
  int culprit_ = -1;
};

}  // namespace fourfold::comm::thread
