// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/engine.hpp"

#include <algorithm>
#include <chrono>
#include <pthread.h>

#include "fourfold/base/check.hpp"

namespace fourfold::comm {

namespace {

using namespace std::chrono_literals;

/// How often the progress thread, when it has nothing to do, looks for questions of other ranks.
constexpr auto kParkedLook = 50ms;
/// How long the progress thread keeps looking after the last operation that it advanced, so that
/// the next operation does not have to wake it.
constexpr Seconds kLinger{0.02};
/// The shortest and longest rest of the progress thread between two looks.
constexpr std::chrono::nanoseconds kShortestRest = 20us;
constexpr std::uint64_t kManyMessages = 8;
/// A waiting thread releases the lock for others, and looks for questions of other ranks, once in
/// so many polls.
constexpr int kRoundsPerBreath = 16;
/// How often a waiting thread looks at the clock.
constexpr Seconds kDeadlineLook{0.02};

bool is_pair(const schedule::Collective& c) {
  return c.op == schedule::Op::kSend || c.op == schedule::Op::kRecv;
}

/// Each kind of operation of a lane has a tag of its own. Ranks that disagree about the next
/// operation therefore hang and are found, instead of receiving messages of another operation.
constexpr int kTagsPerLane = 8;
int tag_of(const Lane& lane, const schedule::Collective& c) {
  const auto kind = c.op == schedule::Op::kRecv ? schedule::Op::kSend : c.op;
  return kTagsPerLane * lane.id + static_cast<int>(kind);
}

}  // namespace

Engine::Engine(std::unique_ptr<Transport> transport, const Options& options,
               const Observers& observers)
    : transport_(std::move(transport)),
      options_(options),
      observers_(&observers),
      deadline_(options.deadline.value_or(kDeadline)),
      answers_(static_cast<std::size_t>(transport_->size())),
      suspicion_(deadline_.load()) {
  if (transport_->size() > 1) progress_ = std::thread([this] { run_progress(); });
}

Engine::~Engine() {
  // The last operations of a lane may still be sending data that their peers need.
  std::vector<IssuedPtr> open;
  {
    const std::lock_guard lock(mutex_);
    for (const Queue* queue : active_) open.insert(open.end(), queue->begin(), queue->end());
  }
  try {
    for (const IssuedPtr& issued : open) wait(issued);
  } catch (const Error&) {
    // The engine has failed, and no operation is left under way. A destructor cannot report this.
    // Callers that needed a result have waited for it and got the exception.
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (progress_.joinable()) progress_.join();
  if (!failure_) transport_->close();
}

int Engine::reserve_lanes(int count) {
  const std::lock_guard lock(mutex_);
  if (lanes_.reserved() + count > transport_->max_tag() / kTagsPerLane) {
    throw CommError(concat("too many communicators: this backend has tags for ",
                           transport_->max_tag() / kTagsPerLane));
  }
  return lanes_.reserve(count);
}

Lane& Engine::add_lane(const grid::Group& group, int number, int purpose) {
  const std::lock_guard lock(mutex_);
  const std::string host = transport_->host(transport_->rank());
  const bool one_host = std::ranges::all_of(
      group.members, [&](int member) { return transport_->host(member) == host; });
  Lane& lane = lanes_.add(group, number,
                          one_host ? schedule::Reach::kHost : schedule::Reach::kNetwork, purpose);
  if (device_ != nullptr) device_->add_lane(lane);
  return lane;
}

IssuedPtr Engine::submit(Lane& lane, const schedule::Collective& collective, Buffers&& buffers,
                         std::int64_t of_rank) {
  auto issued = std::make_shared<Issued>();
  issued->collective = collective;
  issued->lane = &lane;
  issued->buffers = std::move(buffers);
  issued->of_rank = of_rank;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    throw_if_failed();
    issued->operation = make_operation(collective, issued->buffers,
                                       Port(*transport_, lane.group, lane.reach,
                                            tag_of(lane, collective), issued->sent, issued->held),
                                       scratch_);
    const bool pair = is_pair(collective);
    Queue& queue = pair ? lane.pairs[{collective.root, collective.op == schedule::Op::kSend}]
                        : lane.collectives;
    issued->number = pair ? lane.pairs_issued++ : lane.issued++;
    queue.push_back(issued);
    if (queue.size() == 1) {
      active_.push_back(&queue);
      attempt([&] { advance(queue); });
      throw_if_failed(issued.get());
      if (queue.empty()) active_.pop_back();
    }
    busy_ = !active_.empty();
    wake = should_wake();
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

// Operations that compute waits for get the link almost for themselves. Other operations may still
// send one message at a time, because another rank may need their data before it can issue the
// awaited operation.
void Engine::hold_back() {
  const auto any_wait = [&](const auto& of) { return std::ranges::any_of(waits_, of); };
  const bool needed = active_.size() > 1 && any_wait([](const Wait& wait) {
                        return wait.issued->lane->reach == schedule::Reach::kNetwork;
                      });
  if (!needed && !holding_) return;
  holding_ = needed;
  for (const Queue* queue : active_) {
    Issued& first = *queue->front();
    const bool awaited =
        any_wait([&](const Wait& wait) { return wait.issued->lane == first.lane; });
    first.held = needed && first.lane->reach == schedule::Reach::kNetwork && !awaited;
  }
}

void Engine::finish(Issued& issued) {
  issued.operation.reset();
  issued.buffers.clear();
  issued.ended = now();
  observers_->ended(observed(issued), {issued.sent, issued.started, issued.ended});
  issued.done.store(true, std::memory_order_release);
}

bool Engine::poll(bool look_for_questions) {
  const std::size_t before = active_.size();
  attempt([&] {
    if (look_for_questions) answer_control();
    transport_->poll();
    hold_back();
    for (Queue* queue : active_) advance(*queue);
  });
  std::erase_if(active_, [](const Queue* queue) { return queue->empty(); });
  busy_ = !active_.empty();
  return active_.size() != before;
}

std::optional<Blocked> Engine::wait(const IssuedPtr& issued) {
  if (issued->done.load(std::memory_order_acquire)) {
    if (issued->failed) throw_if_failed(issued.get());
    return std::nullopt;
  }
  const Seconds since = now();
  ++waiting_;  // before taking the lock: from here on the progress thread does not take it
  std::unique_lock lock(mutex_);
  waits_.push_back({issued, since});
  const auto no_longer = [&] {
    std::erase_if(waits_, [&](const Wait& wait) { return wait.issued == issued; });
    --waiting_;
  };
  try {
    drive(lock, *issued, since);
  } catch (...) {
    no_longer();
    throw;
  }
  no_longer();
  const bool wake = should_wake();
  lock.unlock();
  if (wake) wake_.notify_one();
  throw_if_failed(issued.get());
  return Blocked{since, issued->ended};
}

void Engine::drive(std::unique_lock<std::mutex>& lock, const Issued& issued, Seconds since) {
  Seconds checked = since;
  Seconds due = since + suspicion_.load();
  for (std::int64_t rounds = 0;; ++rounds) {
    const std::uint64_t seen = transport_->activity();
    const bool breathe =
        rounds % kRoundsPerBreath == kRoundsPerBreath - 1 || !transport_->needs_polling();
    if (poll(breathe)) rounds = 0;
    if (issued.done.load(std::memory_order_relaxed)) return;
    if (breathe) lock.unlock();
    transport_->idle(seen, rounds);
    if (!lock) lock.lock();
    const bool look = rounds % 64 == 63 || !transport_->needs_polling();
    if (look && now() - checked > kDeadlineLook) {
      checked = now();
      if (checked >= due) due = past_deadline(lock, issued, since);
    }
  }
}

bool Engine::test(const IssuedPtr& issued) {
  if (!issued->done.load(std::memory_order_acquire)) {
    const std::lock_guard lock(mutex_);
    poll(true);
  }
  const bool done = issued->done.load(std::memory_order_acquire);
  if (done && issued->failed) throw_if_failed(issued.get());
  return done;
}

// --- failure

void Engine::abort(const std::string& reason, int status) {
  const std::lock_guard lock(mutex_);
  fail_locked(reason, Cause::kOwn, status);
  transport_->abort(reason, status);
}

bool Engine::fail(const std::string& reason, int status) {
  const std::lock_guard lock(mutex_);
  fail_locked(reason, Cause::kOwn, status);
  return ender_ == transport_->rank();
}

void Engine::fail_locked(const std::string& reason, Cause cause, int status) {
  if (!failure_) {
    failure_ = reason;
    failed_ = true;
    // This happens now, while the buffers of the operations under way still exist: messages may
    // arrive in them while the ranks agree who ends the job.
    ender_ = agree_who_ends(cause, status);
  }
  for (Queue* queue : active_) {
    for (const IssuedPtr& issued : *queue) {
      issued->failed = true;
      issued->operation.reset();
      issued->done.store(true, std::memory_order_release);
    }
    queue->clear();
  }
  active_.clear();
  busy_ = false;
  transport_->withdraw(*failure_);
}

void Engine::throw_if_failed(const Issued* issued) const {
  if (issued != nullptr ? issued->failed : failure_.has_value()) throw CommError(*failure_);
}

void Engine::begin_long_work(const std::string& what) {
  const std::lock_guard lock(mutex_);
  long_works_.emplace_back(what);
}

void Engine::end_long_work() {
  const std::lock_guard lock(mutex_);
  long_works_.pop_back();
  long_work_ended_ = now();
}

void Engine::rest_at_most(Seconds rest) {
  const std::chrono::duration<double> time(rest.value());
  longest_rest_ =
      std::max(kShortestRest, std::chrono::duration_cast<std::chrono::nanoseconds>(time));
}

void Engine::suspect_after(Seconds wait) {
  if (options_.deadline) return;
  constexpr Seconds kShortest{120};
  constexpr double kWaits = 30;
  deadline_ = std::max(kShortest, kWaits * wait);
  suspicion_ = wait;
}

std::int64_t Engine::control_messages() const {
  const std::lock_guard lock(mutex_);
  return control_messages_;
}

std::int64_t Engine::scratch_peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return scratch_.peak_bytes();
}

// --- progress

// The thread that waits advances all operations itself. The progress thread advances them while no
// thread waits. It must not get in the way of the other threads: it takes the lock only when there
// is work and nobody holds the lock, and it sleeps between looks.
void Engine::run_progress() {
  set_this_rank(transport_->rank());
  pthread_setname_np(pthread_self(), "progress");
  Seconds last_work = now();
  std::chrono::nanoseconds rest = kShortestRest;
  while (!stopping_) {
    if (!transport_->needs_polling()) {
      park();
    } else if (busy_ && waiting_ == 0) {
      const std::uint64_t before = transport_->completions();
      if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) poll(true);
      // Polling costs the compute thread some microseconds, so the thread polls about as often as
      // messages end.
      const std::uint64_t found = transport_->completions() - before;
      if (found == 0) rest *= 2;
      if (found > kManyMessages) rest /= 2;
      rest = std::clamp(rest, kShortestRest, longest_rest_.load());
      std::this_thread::sleep_for(rest);
      last_work = now();
    } else if (now() - last_work < kLinger) {
      rest = std::min(rest * 2, longest_rest_.load());
      std::this_thread::sleep_for(rest);
    } else {
      // Once woken, the thread stays awake for a while. Otherwise each of a series of operations
      // that are waited for at once would wake it again in vain.
      if (park()) last_work = now();
    }
  }
}

/// Sleeps until there is work, and then returns true. Otherwise returns after a while to look for
/// questions of other ranks.
bool Engine::park() {
  std::unique_lock lock(mutex_);
  if (should_wake()) return true;
  parked_ = true;
  const bool woken = wake_.wait_for(lock, kParkedLook) == std::cv_status::no_timeout;
  parked_ = false;
  if (waits_.empty() && !stopping_) poll(true);
  return woken;
}

bool Engine::should_wake() const {
  return stopping_ ||
         (parked_ && transport_->needs_polling() && waits_.empty() && !active_.empty());
}

}  // namespace fourfold::comm
