// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/thread/hub.hpp"

#include <chrono>
#include <cstring>

#include "fourfold/base/check.hpp"

namespace fourfold::comm::thread {

namespace {
constexpr std::chrono::milliseconds kLongestRest{20};
}

void Hub::post_send(Message& message, int tag) {
  Box& to = box(message.peer);
  const std::lock_guard lock(to.mutex);
  throw_if_failed();
  Waiting& waiting = to.waiting[{message.owner, tag}];
  if (waiting.receives.empty()) {
    waiting.sends.push_back(&message);
    return;
  }
  Message& other = *waiting.receives.front();
  waiting.receives.pop_front();
  complete(message, other);
  notify(message.peer);  // this rank is awake and will look by itself
}

void Hub::post_receive(Message& message, int tag) {
  Box& to = box(message.owner);
  const std::lock_guard lock(to.mutex);
  throw_if_failed();
  Waiting& waiting = to.waiting[{message.peer, tag}];
  if (waiting.sends.empty()) {
    waiting.receives.push_back(&message);
    return;
  }
  Message& other = *waiting.sends.front();
  waiting.sends.pop_front();
  complete(other, message);
  notify(message.peer);
}

// Runs under the lock of the receiver's box, which `fail` takes too. So no copy is under way after
// a failure.
void Hub::complete(Message& send, Message& receive) {
  auto state = Message::State::kDone;
  if (send.bytes != receive.bytes) {
    state = Message::State::kWrongSize;
    send.other_bytes = receive.bytes;
    receive.other_bytes = send.bytes;
  } else if (send.bytes > 0) {
    std::memcpy(receive.data, send.data, send.bytes);
  }
  // The owner of a message may reuse it as soon as it sees that it is done.
  send.state.store(state, std::memory_order_release);
  receive.state.store(state, std::memory_order_release);
}

void Hub::send_control(const ControlMessage& message, int peer) {
  {
    Box& to = box(peer);
    const std::lock_guard lock(to.mutex);
    to.control.push_back(message);
  }
  notify(peer);
}

std::optional<ControlMessage> Hub::receive_control(int rank) {
  Box& own = box(rank);
  const std::lock_guard lock(own.mutex);
  if (own.control.empty()) return std::nullopt;
  const ControlMessage message = own.control.front();
  own.control.pop_front();
  return message;
}

void Hub::fail(int rank, const std::string& reason) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failed_) {
      reason_ = concat("rank ", rank, " failed: ", reason);
      culprit_ = rank;
      failed_.store(true, std::memory_order_release);
    }
  }
  // A rank that fails second does this too: when the call returns, no other rank may be copying its
  // memory.
  for (Box& each : boxes_) {
    const std::lock_guard lock(each.mutex);
    each.waiting.clear();
  }
  for (int other = 0; other < size(); ++other) notify(other);
}

void Hub::throw_if_failed() const {
  if (!failed()) return;
  const std::lock_guard lock(failure_mutex_);
  throw CommError(reason_);
}

std::uint64_t Hub::activity(int rank) const {
  return box(rank).activity.load(std::memory_order_acquire);
}

void Hub::notify(int rank) {
  Box& own = box(rank);
  {
    const std::lock_guard lock(own.activity_mutex);
    own.activity.fetch_add(1, std::memory_order_release);
  }
  own.active.notify_all();
}

void Hub::await_activity(int rank, std::uint64_t seen) {
  Box& own = box(rank);
  std::unique_lock lock(own.activity_mutex);
  own.active.wait_for(lock, kLongestRest, [&] { return own.activity != seen || failed(); });
}

}  // namespace fourfold::comm::thread
