// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/nccl/communicators.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "fourfold/base/check.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::comm::nccl {

namespace {
/// How long a thread sleeps between two looks at a communicator that is being made.
constexpr std::chrono::microseconds kLook{200};
/// Calls to communicators that do not block return far sooner.
constexpr Seconds kLongestCall{1};
}  // namespace

void check_cuda(const Api& api, int result, const char* function) {
  if (result != kSuccess) {
    throw CommError(concat("CUDA cannot ", function, ": ", api.cuda_error(result)));
  }
}

void check_nccl(const Api& api, int result, const char* function) {
  if (result != kSuccess && result != kInProgress) {
    throw CommError(concat("NCCL cannot ", function, ": ", api.nccl_error(result)));
  }
}

Communicators::Communicators(const Api& api, DeviceHost& host, const Options& options)
    : api_(&api),
      host_(&host),
      device_(options.device),
      max_ctas_(options.max_ctas),
      farewell_(options.farewell) {}

Communicators::~Communicators() {
  const Seconds end = now() + farewell_;
  finish_joining(end);
  if (!aborted_) close(end);
}

/// A communicator that another member asked for may still be under way here, and that member may be
/// gone: the threads that join are ended then.
void Communicators::finish_joining(Seconds end) {
  std::vector<Entry*> joining;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, entry] : entries_) {
      if (entry.join.joinable()) joining.push_back(&entry);
    }
  }
  const auto ready = [](const Entry* entry) {
    return entry->ready.load(std::memory_order_acquire);
  };
  while (!std::ranges::all_of(joining, ready) && now() < end) std::this_thread::sleep_for(kLook);
  if (!std::ranges::all_of(joining, ready)) abort();
  for (Entry* entry : joining) entry->join.join();
}

/// Finalizes all communicators at once: members may have made them in another order.
void Communicators::close(Seconds end) {
  for (auto& [key, entry] : entries_) {
    if (entry.comm != nullptr) static_cast<void>(api_->comm_finalize(entry.comm));
  }
  const auto finalized = [&](const auto& each) {
    int state = kSuccess;
    return each.second.comm == nullptr || api_->comm_state(each.second.comm, &state) != kSuccess ||
           state != kInProgress;
  };
  while (!std::ranges::all_of(entries_, finalized) && now() < end) {
    std::this_thread::sleep_for(kLook);
  }
  if (!std::ranges::all_of(entries_, finalized)) return abort();
  for (auto& [key, entry] : entries_) {
    if (entry.comm != nullptr) static_cast<void>(api_->comm_destroy(entry.comm));
  }
}

void Communicators::add_lane(const Lane& lane) {
  const std::lock_guard lock(mutex_);
  lanes_[lane.id] = &lane;
  for (const Invitation& each : early_) {
    if (each.lane != lane.id) continue;
    Entry& invited = entry(lane, each.from, each.to);
    if (each.has_id) {
      invited.has_id = true;
      invited.id = each.id;
    }
    start({each.lane, each.from, each.to}, invited);
  }
  std::erase_if(early_, [&](const Invitation& each) { return each.lane == lane.id; });
}

void Communicators::invited(const Invitation& invitation) {
  const std::lock_guard lock(mutex_);
  const auto lane = lanes_.find(invitation.lane);
  if (lane == lanes_.end()) {
    early_.push_back(invitation);
    return;
  }
  Entry& invited = entry(*lane->second, invitation.from, invitation.to);
  if (invitation.has_id) {
    invited.has_id = true;
    invited.id = invitation.id;
  }
  start({invitation.lane, invitation.from, invitation.to}, invited);
}

/// Under the lock.
Communicators::Entry& Communicators::entry(const Lane& lane, int from, int to) {
  const auto [place, added] = entries_.try_emplace({lane.id, from, to});
  Entry& entry = place->second;
  if (!added) return entry;
  const grid::Group& group = lane.group;
  if (from < 0) {
    entry.members = group.members;
    entry.index = group.index;
  } else {
    for (const int index : {from, to}) {
      entry.members.push_back(group.members[static_cast<std::size_t>(index)]);
    }
    entry.index = group.index == from ? 0 : 1;
  }
  return entry;
}

/// Under the lock: joins if the id is known or is to be made here.
void Communicators::start(const Key& key, Entry& entry) {
  const bool owner = entry.index == 0;
  if (entry.join.joinable() || aborted_ || (!owner && !entry.has_id)) return;
  entry.join = std::thread([this, key, &entry] { join(key, entry); });
}

/// Runs on a thread of its own.
void Communicators::join(const Key& key, Entry& entry) {
  set_this_rank(host_->rank());
  try {
    check_cuda(*api_, api_->set_device(device_), "choose the device");
    UniqueId id{};
    bool owner = false;
    {
      const std::lock_guard lock(mutex_);
      owner = !entry.has_id;
      id = entry.id;
    }
    if (owner) {
      check_nccl(*api_, api_->get_unique_id(&id), "make an id");
      const auto& [lane, from, to] = key;
      for (std::size_t i = 1; i < entry.members.size(); ++i) {
        host_->invite({lane, from, to, true, id}, entry.members[i]);
      }
    }
    Comm comm = nullptr;
    {
      const std::lock_guard lock(call_mutex_);
      throw_if_aborted();
      check_nccl(*api_,
                 api_->comm_create(&comm, static_cast<int>(entry.members.size()), id, entry.index,
                                   max_ctas_),
                 "make a communicator");
      const std::lock_guard own(mutex_);
      entry.comm = comm;
    }
    // The rank that waits for this has a deadline, after which it aborts.
    while (!settled(comm)) std::this_thread::sleep_for(kLook);
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    entry.error = error.what();
  }
  entry.ready.store(true, std::memory_order_release);
}

Comm Communicators::of(const Lane& lane, int from, int to) {
  Entry* wanted = nullptr;
  bool ask = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = &entry(lane, from, to);
    start({lane.id, from, to}, *wanted);
    const bool waits_for_owner = wanted->index > 0 && !wanted->has_id;
    ask = waits_for_owner && !std::exchange(wanted->asked, true);
  }
  if (ask) host_->invite({lane.id, from, to, false, {}}, wanted->members.front());
  if (!wanted->ready.load(std::memory_order_acquire)) {
    host_->wait_until([&] { return wanted->ready.load(std::memory_order_acquire); });
  }
  const std::lock_guard lock(mutex_);
  if (!wanted->error.empty()) throw CommError(wanted->error);
  return wanted->comm;
}

void Communicators::throw_if_aborted() const {
  if (aborted_) throw CommError("the communicators of this rank have been given up");
}

void Communicators::guarded(const std::function<void()>& issue) {
  const std::lock_guard lock(call_mutex_);
  throw_if_aborted();
  issue();
}

bool Communicators::settled(Comm comm) {
  int state = kSuccess;
  guarded([&] { check_nccl(*api_, api_->comm_state(comm, &state), "tell its state"); });
  check_nccl(*api_, state, "go on");
  return state == kSuccess;
}

std::string Communicators::error() {
  // A call that blocks is watched by others; here nothing may stand behind it.
  const std::unique_lock call(call_mutex_, std::try_to_lock);
  if (!call || aborted_) return {};
  const std::lock_guard lock(mutex_);
  for (const auto& [key, entry] : entries_) {
    if (!entry.error.empty()) return entry.error;
    if (entry.comm == nullptr) continue;
    int state = kSuccess;
    const int result = api_->comm_state(entry.comm, &state);
    for (const int each : {result, state}) {
      if (each == kSuccess || each == kInProgress) continue;
      return concat("NCCL has failed over group ", lanes_.at(std::get<0>(key))->group, ": ",
                    api_->nccl_error(each));
    }
  }
  return {};
}

void Communicators::abort() {
  const std::lock_guard once(abort_mutex_);
  if (std::exchange(abort_done_, true)) return;
  std::vector<Comm> comms;
  {
    // A call that does not return has the mutex: what it blocks on is what must be aborted.
    std::unique_lock call(call_mutex_, std::try_to_lock);
    for (const Seconds end = now() + kLongestCall; !call && now() < end;) {
      std::this_thread::sleep_for(kLook);
      static_cast<void>(call.try_lock());
    }
    aborted_ = true;
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      if (entry.comm != nullptr) comms.push_back(entry.comm);
    }
  }
  // All at once: a kernel may stand behind one of another communicator.
  std::vector<std::jthread> threads;
  for (const Comm comm : comms) {
    threads.emplace_back([this, comm] {
      static_cast<void>(api_->set_device(device_));
      static_cast<void>(api_->comm_abort(comm));
    });
  }
}

}  // namespace fourfold::comm::nccl
