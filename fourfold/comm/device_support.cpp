// The part of the engine that serves operations which a device carries out: their places in the
// lanes, messages between devices, and the look into an operation that does not end.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <thread>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/engine.hpp"

namespace fourfold::comm {

namespace {
/// How long a thread sleeps between two looks at what another thread sets up.
constexpr std::chrono::microseconds kSetUpLook{100};
}  // namespace

void Engine::attach(Device& device) {
  const std::lock_guard lock(mutex_);
  device_ = &device;
  lanes_.visit([&](const Lane& lane) { device_->add_lane(lane); });
  for (const Invitation& invitation : std::exchange(invitations_, {})) device_->invited(invitation);
}

void Engine::detach() {
  const std::lock_guard lock(mutex_);
  device_ = nullptr;
  device_wait_.reset();
  // After a failure, what was under way belongs to nobody any more.
  lanes_.visit([](Lane& lane) { lane.on_device.clear(); });
}

void Engine::enter(const IssuedPtr& issued) {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
  Lane& lane = *issued->lane;
  const bool pair =
      issued->collective.op == schedule::Op::kSend || issued->collective.op == schedule::Op::kRecv;
  issued->number = pair ? lane.pairs_issued++ : lane.issued++;
  lane.on_device.push_back(issued);
}

void Engine::leave(const IssuedPtr& issued) {
  const std::lock_guard lock(mutex_);
  std::erase(issued->lane->on_device, issued);
  if (device_wait_ && device_wait_->issued == issued) device_wait_.reset();
  issued->done.store(true, std::memory_order_release);
}

void Engine::invite(const Invitation& invitation, int rank) {
  const std::lock_guard lock(mutex_);
  attempt([&] {
    send_control({.kind = ControlMessage::Kind::kInvite,
                  .from = transport_->rank(),
                  .invitation = invitation},
                 rank);
  });
}

void Engine::throw_if_it_failed() const {
  const std::lock_guard lock(mutex_);
  throw_if_failed();
}

void Engine::await(const IssuedPtr& issued, const std::function<bool()>& ready) {
  const Seconds since = now();
  Seconds due = since + suspicion_.load();
  std::unique_lock lock(mutex_);
  launching_ = Wait{issued, since};
  ++waiting_;
  const auto no_longer = [&] {
    launching_.reset();
    --waiting_;
  };
  try {
    for (;;) {
      poll(true);
      attempt([&] { transport_->check(); });
      throw_if_failed();
      if (now() >= due) due = past_deadline(lock, *issued, since);
      lock.unlock();
      const bool is_ready = ready();
      if (!is_ready) std::this_thread::sleep_for(kSetUpLook);
      lock.lock();
      if (is_ready) break;
    }
  } catch (...) {
    if (!lock) lock.lock();
    no_longer();
    throw;
  }
  no_longer();
}

void Engine::watch(const IssuedPtr& oldest, Seconds since) {
  std::unique_lock lock(mutex_);
  attempt([&] { transport_->check(); });
  if (failure_) return;
  const bool same = device_wait_ && device_wait_->issued == oldest;
  if (!same) device_due_ = since + suspicion_.load();
  device_wait_ = oldest ? std::optional(Wait{oldest, since}) : std::nullopt;
  if (!oldest || now() < device_due_) return;
  try {
    device_due_ = past_deadline(lock, *oldest, since);
  } catch (const CommError&) {
    // The engine has failed, and so whoever waits for the operation will hear of it.
  }
}

}  // namespace fourfold::comm
