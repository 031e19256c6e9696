// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/device_engine.hpp"

#include <algorithm>
#include <chrono>
#include <pthread.h>

#include "fourfold/base/check.hpp"

namespace fourfold::comm {

namespace {

using namespace std::chrono_literals;

/// How often the watchdog looks at the operations under way.
constexpr auto kLook = 5ms;
/// How often a thread that waits for the device looks at them.
constexpr auto kWaitingLook = 50us;

}  // namespace

DeviceEngine::QueueKey DeviceEngine::queue_of(const Issued& issued) {
  const bool send = issued.collective.op == schedule::Op::kSend;
  const bool pair = send || issued.collective.op == schedule::Op::kRecv;
  return {issued.lane->id, pair ? issued.collective.root : -1, send};
}

DeviceEngine::DeviceEngine(std::unique_ptr<Device> device, Engine& engine,
                           const Observers& observers)
    : device_(std::move(device)), engine_(&engine), observers_(&observers) {
  device_->open(*this);
  engine_->attach(*device_);
  watchdog_ = std::thread([this] { run(); });
}

DeviceEngine::~DeviceEngine() {
  try {
    resolve();
  } catch (const Error&) {
    // As in the engine: a destructor cannot report this, and the next call that can will do so.
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  watchdog_.join();
  if (engine_->has_failed()) device_->abort();
  engine_->detach();
}

std::vector<IssuedPtr> DeviceEngine::submit(Lane& lane, std::vector<Submission>&& submissions) {
  throw_if_failed();
  std::vector<IssuedPtr> all;
  std::vector<Device::Launch> launches;
  for (Submission& submission : submissions) {
    const IssuedPtr& issued = all.emplace_back(std::make_shared<Issued>());
    issued->collective = submission.collective;
    issued->lane = &lane;
    issued->memory = Memory::kDevice;
    issued->buffers = std::move(submission.buffers);
    issued->of_rank = submission.of_rank;
    issued->sent =
        schedule::traffic_on_device(issued->collective, lane.group.size(), lane.group.index);
    engine_->enter(issued);
    launches.push_back({issued->collective, &issued->buffers});
  }
  begin_launch(all.front());
  std::vector<Device::LaunchedPtr> launched;
  try {
    launched = device_->launch(lane, launches);
  } catch (...) {
    begin_launch(nullptr);
    throw_if_failed();  // which says more
    throw;
  }
  const std::lock_guard lock(mutex_);
  launching_.reset();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->launched = std::move(launched[i]);
    all[i]->is_launched.store(true, std::memory_order_release);
    under_way_[queue_of(*all[i])].push_back({all[i], {}});
  }
  return all;
}

void DeviceEngine::run_alone(const schedule::Collective& collective, const InOut& buffers) {
  device_->run_alone(collective, buffers);
}

void DeviceEngine::wait(const IssuedPtr& issued) {
  throw_if_failed();
  Entry entry;
  entry.stamp = device_->stamp();
  entry.issued = issued;
  device_->wait(*issued->launched);
  throw_if_failed();
  // Whoever gets this memory next gives it to the compute stream, which has waited.
  issued->buffers.clear();
  journal_.push_back(std::move(entry));
  {
    const std::lock_guard lock(mutex_);
    const auto queue = under_way_.find(queue_of(*issued));
    if (queue != under_way_.end()) {
      for (UnderWay& each : queue->second) each.awaited = each.awaited || each.issued == issued;
    }
  }
  report();
}

bool DeviceEngine::test(const IssuedPtr& issued) {
  throw_if_failed();
  return issued->done || device_->ended(*issued->launched);
}

void DeviceEngine::computed(const Computed& computed) {
  if (!observers_->want_times()) return;
  Entry entry;
  entry.stamp = device_->stamp();
  entry.name = computed.name;
  entry.arithmetic = computed.arithmetic;
  entry.phase = computed.phase;
  entry.layer = computed.layer;
  journal_.push_back(std::move(entry));
  report();
}

void DeviceEngine::resolve() {
  const auto idle = [&] {
    const std::lock_guard lock(mutex_);
    return under_way_.empty();
  };
  for (collect(); !idle(); collect()) {
    throw_if_failed();
    std::this_thread::sleep_for(kWaitingLook);
  }
  throw_if_failed();
  device_->finish();
  report();
}

void DeviceEngine::report_ended() {
  throw_if_failed();
  collect();
  device_->keep_time();
  report();
}

void DeviceEngine::release_communicators() {
  throw_if_failed();
  device_->release_communicators();
}

void DeviceEngine::abort() {
  device_->abort();
}

void DeviceEngine::invite(const Invitation& invitation, int rank) {
  engine_->invite(invitation, rank);
}

void DeviceEngine::begin_launch(const IssuedPtr& issued) {
  const std::lock_guard lock(mutex_);
  launching_ = issued;
  launching_since_ = now();
}

void DeviceEngine::wait_until(const std::function<bool()>& ready) {
  FOURFOLD_CHECK(launching_ != nullptr);
  if (ready()) return;
  // The engine watches the time now, and the watchdog must not look into the same operation.
  const IssuedPtr issued = launching_;
  begin_launch(nullptr);
  engine_->await(issued, ready);
  begin_launch(issued);
}

/// After a failure the device is stopped before anybody else can learn of the failure here: the
/// buffers of operations may then disappear.
void DeviceEngine::throw_if_failed() {
  if (!engine_->has_failed()) return;
  device_->abort();
  engine_->throw_if_it_failed();
}

/// Takes the operations that have ended from the list, and reports them. Notes which of the others
/// the device has come to.
void DeviceEngine::collect() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, queue] : under_way_) {
    while (!queue.empty() && device_->ended(*queue.front().issued->launched)) {
      const IssuedPtr issued = queue.front().issued;
      queue.pop_front();
      const Device::Times times = device_->times_of(*issued->launched);
      issued->started = times.started;
      issued->ended = times.ended;
      progress_ = now();
      observers_->ended(observed(*issued), {issued->sent, issued->started, issued->ended});
      engine_->leave(issued);
    }
    if (queue.empty()) continue;
    UnderWay& front = queue.front();
    if (!front.issued->begun && device_->began(*front.issued->launched)) {
      front.since = now();
      front.issued->begun = true;
    }
  }
  std::erase_if(under_way_, [](const auto& each) { return each.second.empty(); });
}

bool DeviceEngine::is_known(const Entry& entry) {
  return (!entry.issued || entry.issued->done) && device_->passed(*entry.stamp);
}

/// Reports what is known by now of compute and waits, in the order of the compute stream.
void DeviceEngine::report() {
  for (; !journal_.empty() && is_known(journal_.front()); journal_.pop_front()) {
    const Entry& entry = journal_.front();
    const Seconds at = device_->time_of(*entry.stamp);
    if (entry.issued) {
      const Seconds ended = entry.issued->ended;
      const auto blocked =
          ended > at ? std::optional(Blocked{at, ended, ended}) : std::optional<Blocked>();
      observers_->tell(
          [&](Observer& observer) { observer.waited(observed(*entry.issued), blocked); });
    } else {
      const Computed computed{entry.name, entry.arithmetic, entry.phase, entry.layer, at};
      observers_->tell([&](Observer& observer) { observer.timed(computed); });
    }
  }
}

// --- the watchdog

/// The operation that the device is at: of those that have begun the first that the compute stream
/// waits for, or the first of all. Receives may be under way long before their data exists. What
/// has not begun stands behind compute, which may take as long as it likes: the host is far ahead
/// of the device. If there is none, it is the one whose launch does not return.
std::pair<IssuedPtr, Seconds> DeviceEngine::oldest() {
  const std::lock_guard lock(mutex_);
  const UnderWay* first = nullptr;
  for (const auto& [key, queue] : under_way_) {
    for (const UnderWay& each : queue) {
      if (!each.issued->begun) continue;
      if (first == nullptr || (each.awaited && !first->awaited) ||
          (each.awaited == first->awaited && each.issued->of_rank < first->issued->of_rank)) {
        first = &each;
      }
    }
  }
  if (first == nullptr) return {launching_, launching_since_};
  return {first->issued, std::max(first->since, progress_)};
}

void DeviceEngine::run() {
  set_this_rank(rank());
  pthread_setname_np(pthread_self(), "device");
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      stop_.wait_for(lock, kLook, [&] { return stopping_; });
      if (stopping_) return;
    }
    try {
      if (engine_->has_failed()) {
        device_->abort();
      } else {
        collect();
        const auto [issued, since] = oldest();
        engine_->watch(issued, since);
        if (const std::string error = device_->error(); !error.empty()) engine_->fail(error);
      }
    } catch (const std::exception& error) {
      engine_->fail(error.what());
    }
  }
}

}  // namespace fourfold::comm
