// The part of the engine that finds out which rank holds an operation up.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/engine.hpp"

namespace fourfold::comm {

namespace {

/// How often a rank asks at least whether the ranks whose long work it waits for still answer.
constexpr Seconds kPatientLook{5};

}  // namespace

Place Engine::place_of(const Issued& issued) const {
  return {issued.number, issued.collective};
}

int Engine::awaited_rank(const Issued& issued) const {
  // What a collective waits for on a device, its library does not tell.
  const bool pair =
      issued.collective.op == schedule::Op::kSend || issued.collective.op == schedule::Op::kRecv;
  const bool on_device = issued.memory == Memory::kDevice;
  const int index = issued.operation    ? issued.operation->awaited()
                    : on_device && pair ? issued.collective.root
                                        : -1;
  return index < 0 ? -1 : issued.lane->group.members[static_cast<std::size_t>(index)];
}

Position Engine::position_in(int lane) const {
  Position position;
  position.rank = transport_->rank();
  const Lane* asked = lanes_.find(lane);
  position.joined = asked != nullptr;
  if (asked != nullptr) {
    position.issued = asked->issued;
    if (!asked->collectives.empty()) position.current = place_of(*asked->collectives.front());
    const auto on_device = std::ranges::find_if(asked->on_device, [](const IssuedPtr& issued) {
      return issued->collective.op != schedule::Op::kSend &&
             issued->collective.op != schedule::Op::kRecv;
    });
    if (on_device != asked->on_device.end() &&
        (position.current.number < 0 || (*on_device)->number < position.current.number)) {
      position.current = place_of(**on_device);
      position.computing = !(*on_device)->begun;
    }
  }
  std::vector<Wait> waits = waits_;
  if (launching_) waits.push_back(*launching_);
  if (device_wait_) waits.push_back(*device_wait_);
  for (const Wait& wait : waits) {
    position.waiting = true;
    position.waiting_group = FixedText(to_string(wait.issued->lane->group));
    position.waiting_for = place_of(*wait.issued);
    position.awaited = awaited_rank(*wait.issued);
    position.waited = now() - wait.since;
    if (position.awaited >= 0) break;
  }
  if (!long_works_.empty()) position.long_work = long_works_.back();
  position.long_work_over = long_works_.empty() ? now() - long_work_ended_ : Seconds();
  return position;
}

Seconds Engine::past_deadline(std::unique_lock<std::mutex>& lock, const Issued& issued,
                              Seconds since) {
  const int self = transport_->rank();
  if (asking_) return now() + options_.answer_time;  // another thread of this rank does
  struct Asking {
    bool* flag;
    ~Asking() { *flag = false; }
  };
  asking_ = true;
  const Asking until_return{&asking_};
  const int asker = claim(Right::kAsk, self, &lock, &issued);
  if (asker >= 0 && asker != self) return now() + kRightLasts;
  const auto go_on = [&](Seconds look_again) {
    attempt([&] { release_right_to_ask(); });
    return look_again;
  };
  if (is_done(issued)) return go_on(now() + kRightLasts);
  Finding finding;
  if (asker == self) {
    ask_all(lock, issued);
    finding = finding_of(issued, since, issued.lane->group.members);
  } else {
    // No arbiter answers, so the arbiters are the ranks to name. No other rank is asked, since all
    // ranks may have come here at once.
    std::fill(answers_.begin(), answers_.end(), std::nullopt);
    finding = finding_of(issued, since, arbiters(transport_->size()));
  }
  // Before the deadline only a rank that does not answer is a reason to end the job.
  const bool early = now() - since < deadline();
  const Seconds suspicion = suspicion_.load();
  if (is_done(issued)) return go_on(now() + deadline());
  if (finding.patient)
    return go_on(now() + std::min(deadline(), std::max(suspicion, kPatientLook)));
  if (early && finding.silent.empty()) {
    return go_on(std::min(now() + suspicion, since + deadline()));
  }
  silent_ = finding.silent;  // they are not asked who ends the job
  observers_->tell([&](Observer& observer) { observer.gave_up(finding.silent); });
  fail_locked(finding.line, Cause::kPeer);
  throw CommError(finding.line);
}

bool Engine::is_done(const Issued& issued) const {
  if (issued.done) return true;
  const bool launched = issued.is_launched.load(std::memory_order_acquire);
  return launched && device_ != nullptr && device_->ended(*issued.launched);
}

void Engine::ask_all(std::unique_lock<std::mutex>& lock, const Issued& issued) {
  const int self = transport_->rank();
  ++query_;
  std::fill(answers_.begin(), answers_.end(), std::nullopt);
  answers_[static_cast<std::size_t>(self)] = position_in(issued.lane->id);
  attempt([&] {
    for (int peer = 0; peer < transport_->size(); ++peer) {
      if (peer == self) continue;
      send_control({.kind = ControlMessage::Kind::kQuery,
                    .from = self,
                    .lane = issued.lane->id,
                    .query = query_},
                   peer);
    }
  });
  const auto all_answered = [&] {
    return std::all_of(answers_.begin(), answers_.end(),
                       [](const auto& a) { return a.has_value(); });
  };
  const Seconds asked_at = now();
  while (!issued.done && now() - asked_at < options_.answer_time && !all_answered()) {
    const std::uint64_t seen = transport_->activity();
    poll(true);
    lock.unlock();
    transport_->idle(seen, 1000);
    lock.lock();
  }
}

Finding Engine::finding_of(const Issued& issued, Seconds since,
                           const std::vector<int>& members) const {
  const Stuck stuck{.rank = transport_->rank(),
                    .group = to_string(issued.lane->group),
                    .members = members,
                    .host_of = [this](int rank) { return transport_->host(rank); },
                    .place = place_of(issued),
                    .awaited = awaited_rank(issued),
                    .waited = now() - since,
                    .deadline = deadline()};
  return explain(stuck, answers_);
}

}  // namespace fourfold::comm
