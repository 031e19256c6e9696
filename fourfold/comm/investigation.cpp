// The part of the engine that finds out which rank holds an operation up.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/engine.hpp"

namespace fourfold::comm {

Place Engine::place_of(const Issued& issued) const {
  return {issued.number, issued.collective};
}

int Engine::awaited_rank(const Issued& issued) const {
  const int index = issued.operation ? issued.operation->awaited() : -1;
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
  }
  for (const Wait& wait : waits_) {
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
  const int asker = claim(Right::kAsk, self, &lock, &issued);
  if (issued.done || (asker >= 0 && asker != self)) return now() + kRightLasts;
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
  if (issued.done || finding.patient) return now() + deadline_;
  fail_locked(finding.line, Cause::kPeer);
  throw CommError(finding.line);
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
                    .deadline = deadline_};
  return explain(stuck, answers_);
}

}  // namespace fourfold::comm
