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
/// How often a thread that needs a lock looks for it before it sleeps.
constexpr int kYields = 200;
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
      rank_(host.rank()),
      device_(options.device),
      max_ctas_(options.max_ctas),
      farewell_(options.farewell),
      host_(&host) {}

// --- making

void Communicators::add_lane(const Lane& lane) {
  const std::lock_guard lock(mutex_);
  lanes_[lane.id] = &lane;
  take_up_early();
}

void Communicators::invited(const Invitation& invitation) {
  const std::lock_guard lock(mutex_);
  if (invitation.generation < generation_) return;  // all that it was about is over
  early_.push_back(invitation);
  take_up_early();
}

/// Under the lock.
void Communicators::take_up_early() {
  if (!ending_.empty()) return;
  std::erase_if(early_, [&](const Invitation& each) {
    const auto lane = lanes_.find(each.lane);
    if (lane == lanes_.end() || each.generation != generation_) return false;
    take_up(*lane->second, each);
    return true;
  });
}

/// Under the lock.
void Communicators::take_up(const Lane& lane, const Invitation& invitation) {
  const EntryPtr invited = entry(lane, invitation.from, invitation.to);
  if (invitation.has_id) {
    invited->has_id = true;
    invited->id = invitation.id;
  }
  start({invitation.lane, invitation.from, invitation.to}, invited);
}

/// Under the lock.
Communicators::EntryPtr Communicators::entry(const Lane& lane, int from, int to) {
  EntryPtr& entry = entries_[{lane.id, from, to}];
  if (entry != nullptr) return entry;
  entry = std::make_shared<Entry>();
  entry->generation = generation_;
  const grid::Group& group = lane.group;
  if (from < 0) {
    entry->members = group.members;
    entry->index = group.index;
  } else {
    for (const int index : {from, to}) {
      entry->members.push_back(group.members[static_cast<std::size_t>(index)]);
    }
    entry->index = group.index == from ? 0 : 1;
  }
  return entry;
}

/// Under the lock: joins if the id is known or is to be made here.
void Communicators::start(const Key& key, const EntryPtr& entry) {
  const bool owner = entry->index == 0;
  if (entry->started || aborted_ || (!owner && !entry->has_id)) return;
  entry->started = true;
  entry->join = std::thread([self = shared_from_this(), key, entry] { self->join(key, *entry); });
}

/// Runs on a thread of its own.
void Communicators::join(const Key& key, Entry& entry) {
  set_this_rank(rank_);
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
      invite(key, entry, id);
    }
    Comm comm = nullptr;
    {
      const std::unique_lock lock = lock_calls();
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

/// Sends the id to the other members, unless this rank has left meanwhile.
void Communicators::invite(const Key& key, const Entry& entry, const UniqueId& id) {
  const std::lock_guard lock(host_mutex_);
  throw_if_aborted();
  if (host_ == nullptr) throw CommError("this rank has left");
  const auto& [lane, from, to] = key;
  for (std::size_t i = 1; i < entry.members.size(); ++i) {
    host_->invite({lane, entry.generation, from, to, true, id}, entry.members[i]);
  }
}

Comm Communicators::of(const Lane& lane, int from, int to) {
  EntryPtr wanted;
  bool ask = false;
  {
    const std::lock_guard lock(mutex_);
    wanted = entry(lane, from, to);
    start({lane.id, from, to}, wanted);
    const bool waits_for_owner = wanted->index > 0 && !wanted->has_id;
    ask = waits_for_owner && !std::exchange(wanted->asked, true);
  }
  if (ask) {
    host_->invite({lane.id, wanted->generation, from, to, false, {}}, wanted->members.front());
  }
  if (!wanted->ready.load(std::memory_order_acquire)) {
    host_->wait_until([&] { return wanted->ready.load(std::memory_order_acquire); });
  }
  const std::lock_guard lock(mutex_);
  if (!wanted->error.empty()) throw CommError(wanted->error);
  return wanted->comm;
}

// --- ending

void Communicators::close() {
  {
    const std::lock_guard lock(mutex_);
    ending_.swap(entries_);
  }
  static_cast<void>(end(ending_, now() + farewell_));
  const std::lock_guard lock(host_mutex_);
  host_ = nullptr;
}

void Communicators::release() {
  {
    const std::unique_lock call = lock_calls();
    const std::lock_guard lock(mutex_);
    ending_.swap(entries_);
    ++generation_;
  }
  if (!end(ending_, now() + farewell_)) {
    throw CommError(concat("not all ranks have ended their communicators within ", farewell_));
  }
  const std::lock_guard lock(mutex_);
  take_up_early();  // of ranks that were faster
}

/// Ends communicators, all at once: members may have made them in another order. One that another
/// member asked for may still be under way here, and that member may be gone. False: they had to be
/// aborted.
bool Communicators::end(const Entries& entries, Seconds until) {
  const auto wait = [](const auto& done, Seconds latest) {
    while (!done() && now() < latest) std::this_thread::sleep_for(kLook);
    return done();
  };
  const auto ready = [&] {
    return std::ranges::all_of(entries, [](const auto& each) {
      return !each.second->started || each.second->ready.load(std::memory_order_acquire);
    });
  };
  const auto ready_or_aborted = [&] { return aborted_ || ready(); };
  const auto finalized_or_aborted = [&] { return aborted_ || finalized(entries); };
  const bool in_time =
      wait(ready_or_aborted, until) && finalize(entries) && wait(finalized_or_aborted, until);
  if (!in_time || aborted_) {
    abort();
    wait(ready, now() + kLongestCall);
  }
  for (const auto& [key, entry] : entries) {
    if (!entry->join.joinable()) continue;
    if (entry->ready.load(std::memory_order_acquire)) {
      entry->join.join();
    } else {
      entry->join.detach();  // it is in a call that does not return
    }
  }
  const std::lock_guard once(abort_mutex_);
  if (!abort_done_) {
    for (const auto& [key, entry] : entries) {
      if (entry->comm != nullptr) static_cast<void>(api_->comm_destroy(entry->comm));
    }
  }
  const std::lock_guard lock(mutex_);
  ending_.clear();
  return !abort_done_;
}

/// False: aborted.
bool Communicators::finalize(const Entries& entries) {
  try {
    const std::unique_lock call = lock_calls();
    for (const auto& [key, entry] : entries) {
      if (entry->comm != nullptr) static_cast<void>(api_->comm_finalize(entry->comm));
    }
    return true;
  } catch (const CommError&) {
    return false;
  }
}

bool Communicators::finalized(const Entries& entries) {
  const std::unique_lock call(call_mutex_, std::try_to_lock);
  return call && std::ranges::all_of(entries, [&](const auto& each) {
           int state = kSuccess;
           return each.second->comm == nullptr ||
                  api_->comm_state(each.second->comm, &state) != kSuccess || state != kInProgress;
         });
}

void Communicators::throw_if_aborted() const {
  if (aborted_) throw CommError("the communicators of this rank have been given up");
}

/// For a call to a communicator. Who has the lock may be in a call that does not return; then this
/// waits until the communicators are aborted. Throws CommError if they have been.
std::unique_lock<std::mutex> Communicators::lock_calls() {
  std::unique_lock lock(call_mutex_, std::try_to_lock);
  for (int tries = 0; !lock && !aborted_; ++tries) {
    // Others have it for microseconds.
    tries < kYields ? std::this_thread::yield() : std::this_thread::sleep_for(kLook);
    static_cast<void>(lock.try_lock());
  }
  throw_if_aborted();
  return lock;
}

void Communicators::guarded(const std::function<void()>& issue) {
  const std::unique_lock lock = lock_calls();
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
    if (!entry->error.empty()) return entry->error;
    if (entry->comm == nullptr) continue;
    int state = kSuccess;
    const int result = api_->comm_state(entry->comm, &state);
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
    for (const Entries* entries : {&entries_, &ending_}) {
      for (const auto& [key, entry] : *entries) {
        if (entry->comm != nullptr) comms.push_back(entry->comm);
      }
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
