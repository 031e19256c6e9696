// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/engine.hpp"

#include <algorithm>
#include <chrono>

#include "fourfold/base/check.hpp"

namespace fourfold::comm {

namespace {

using namespace std::chrono_literals;

/// With nothing to do, the progress thread looks that often whether another rank asks for
/// something.
constexpr auto kParkedLook = 50ms;
/// How long it keeps looking often after the last operation has ended, so that the next one does
/// not have to wake it.
constexpr Seconds kLinger{0.01};

bool is_pair(const schedule::Collective& c) {
  return c.op == schedule::Op::kSend || c.op == schedule::Op::kRecv;
}

/// Two tags a lane: collectives, and messages between pairs.
int tag_of(const Lane& lane, const schedule::Collective& c) {
  return 2 * lane.id + (is_pair(c) ? 1 : 0);
}

}  // namespace

Engine::Engine(std::unique_ptr<Transport> transport, Counters& counters, const Options& options)
    : transport_(std::move(transport)),
      counters_(counters),
      options_(options),
      answers_(static_cast<std::size_t>(transport_->size())) {
  if (transport_->size() > 1) progress_ = std::thread([this] { run_progress(); });
}

Engine::~Engine() {
  // A lane's last operations may still be sending: their peers need them.
  std::vector<IssuedPtr> open;
  {
    const std::lock_guard lock(mutex_);
    for (const Queue* queue : active_) open.insert(open.end(), queue->begin(), queue->end());
  }
  try {
    for (const IssuedPtr& issued : open) wait(issued);
  } catch (const Error&) {
    // The engine has failed, and nothing under way is left. A destructor cannot say so; whoever
    // needed the result waited for it and heard.
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (progress_.joinable()) progress_.join();
  if (!failure_) transport_->close();
}

Lane& Engine::add_lane(const grid::Group& group) {
  const std::lock_guard lock(mutex_);
  Lane& lane = lanes_.emplace_back();
  lane.group = group;
  lane.id = static_cast<int>(lanes_.size()) - 1;
  if (2 * lane.id + 1 > transport_->max_tag()) {
    throw CommError(concat("too many communicators: this backend has tags for ",
                           (transport_->max_tag() + 1) / 2));
  }
  return lane;
}

IssuedPtr Engine::submit(Lane& lane, const schedule::Collective& collective,
                         std::vector<std::shared_ptr<const void>> owners, const Make& make) {
  auto issued = std::make_shared<Issued>();
  issued->collective = collective;
  issued->lane = &lane;
  issued->owners = std::move(owners);
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    throw_if_failed();
    issued->number = lane.issued++;
    issued->operation =
        make(Port(*transport_, lane.group, tag_of(lane, collective), issued->sent), scratch_);
    Queue& queue = is_pair(collective)
                       ? lane.pairs[{collective.root, collective.op == schedule::Op::kSend}]
                       : lane.collectives;
    queue.push_back(issued);
    if (queue.size() == 1) {
      active_.push_back(&queue);
      try {
        advance(queue);
      } catch (const Error& error) {
        fail_locked(error.what());
        throw;
      }
      if (queue.empty()) active_.pop_back();
    }
    wake = parked_ && transport_->needs_polling() && !active_.empty();
  }
  if (wake) wake_.notify_one();
  return issued;
}

void Engine::advance(Queue& queue) {
  while (!queue.empty()) {
    Issued& first = *queue.front();
    if (first.started == Seconds()) first.started = now();
    if (!first.operation->advance()) return;
    finish(first);
    queue.pop_front();
  }
}

void Engine::finish(Issued& issued) {
  issued.operation.reset();
  issued.owners.clear();
  ++issued.lane->finished;
  const grid::Group& group = issued.lane->group;
  counters_.add_finished(
      {issued.collective.op, to_string(group.axes), group.size()},
      {1, issued.collective.payload(), issued.sent, now() - issued.started, Seconds()});
  issued.done.store(true, std::memory_order_release);
}

bool Engine::poll() {
  answer_control();
  const std::size_t before = active_.size();
  try {
    for (Queue* queue : active_) advance(*queue);
  } catch (const Error& error) {
    fail_locked(error.what());
    return true;
  }
  std::erase_if(active_, [](const Queue* queue) { return queue->empty(); });
  return active_.size() != before;
}

void Engine::wait(const IssuedPtr& issued) {
  if (issued->done.load(std::memory_order_acquire)) {
    if (issued->failed) throw_if_failed(issued.get());
    return;
  }
  const Seconds since = now();
  std::unique_lock lock(mutex_);
  waits_.push_back(issued);
  Seconds checked = since;
  try {
    for (int rounds = 0;; ++rounds) {
      const std::uint64_t seen = transport_->activity();
      if (poll()) rounds = 0;
      if (issued->done.load(std::memory_order_relaxed)) break;
      lock.unlock();
      transport_->idle(seen, Idler::kCompute, rounds);
      lock.lock();
      if (rounds % 64 == 63 || !transport_->needs_polling()) {
        if (now() - checked > Seconds(0.02)) {
          checked = now();
          check_deadline(lock, *issued, since);
        }
      }
    }
  } catch (...) {
    std::erase(waits_, issued);
    throw;
  }
  std::erase(waits_, issued);
  const bool wake = parked_ && waits_.empty() && transport_->needs_polling() && !active_.empty();
  lock.unlock();
  if (wake) wake_.notify_one();
  counters_.add_exposed(
      {issued->collective.op, to_string(issued->lane->group.axes), issued->lane->group.size()},
      now() - since);
  throw_if_failed(issued.get());
}

bool Engine::test(const IssuedPtr& issued) {
  if (!issued->done.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    poll();
  }
  const bool done = issued->done.load(std::memory_order_acquire);
  if (done && issued->failed) throw_if_failed(issued.get());
  return done;
}

// --- failure

void Engine::abort(const std::string& reason, int status) {
  fail(reason);
  transport_->abort(reason, status);
}

void Engine::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  fail_locked(reason);
}

void Engine::fail_locked(const std::string& reason) {
  if (!failure_) failure_ = reason;
  for (Queue* queue : active_) {
    for (const IssuedPtr& issued : *queue) {
      issued->failed = true;
      issued->operation.reset();
      issued->done.store(true, std::memory_order_release);
    }
    queue->clear();
  }
  active_.clear();
  transport_->withdraw(*failure_);
}

void Engine::throw_if_failed(const Issued* issued) const {
  if (issued != nullptr ? issued->failed : failure_.has_value()) throw CommError(*failure_);
}

std::int64_t Engine::scratch_peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return scratch_.peak_bytes();
}

// --- progress

void Engine::run_progress() {
  set_this_rank(transport_->rank());
  Seconds last_busy = now();
  int rounds = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const bool busy = !active_.empty() && waits_.empty();
    if (busy) last_busy = now();
    if (!transport_->needs_polling() || now() - last_busy > kLinger) {
      // Nothing to do, or the waiting thread does it.
      parked_ = true;
      wake_.wait_for(lock, kParkedLook);
      parked_ = false;
      last_busy = active_.empty() ? last_busy : now();
    } else {
      lock.unlock();
      transport_->idle(0, Idler::kProgress, rounds++);
      lock.lock();
    }
    if (stop_ || !waits_.empty()) continue;
    if (poll()) rounds = 0;
  }
}

}  // namespace fourfold::comm
