// The part of the engine that finds out who holds an operation up.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/engine.hpp"

namespace fourfold::comm {

namespace {
/// How long a rank that heard an accusation waits for the job to end before it speaks itself.
constexpr Seconds kAccusationLasts{20};
/// How long an accusation stays open, even if all have answered, for a lower rank's to arrive.
constexpr Seconds kShortestHearing{0.25};
}  // namespace

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
  if (lane >= 0 && lane < static_cast<int>(lanes_.size())) {
    const Lane& asked = lanes_[static_cast<std::size_t>(lane)];
    position.issued = asked.issued;
    if (!asked.collectives.empty()) position.current = place_of(*asked.collectives.front());
  }
  for (const IssuedPtr& issued : waits_) {
    position.waiting = true;
    position.waiting_group = FixedText(to_string(issued->lane->group));
    position.waiting_for = place_of(*issued);
    position.awaited = awaited_rank(*issued);
    if (position.awaited >= 0) break;
  }
  return position;
}

void Engine::answer_control() {
  while (const auto message = transport_->receive_control()) {
    if (message->kind == ControlMessage::Kind::kAnswer) {
      if (message->query == query_) {
        answers_[static_cast<std::size_t>(message->from)] = message->position;
      }
      continue;
    }
    const bool stale = accuser_ < 0 || now() - accused_at_ > kAccusationLasts;
    if (stale || message->from < accuser_) {
      accuser_ = message->from;
      accused_at_ = now();
    }
    ControlMessage answer{ControlMessage::Kind::kAnswer, transport_->rank(), message->lane,
                          message->query, position_in(message->lane)};
    transport_->send_control(answer, message->from);
  }
}

void Engine::check_deadline(std::unique_lock<std::mutex>& lock, const Issued& issued,
                            Seconds since) {
  if (now() - since < options_.deadline) return;
  // One rank speaks for all: the first to ask, or of several at once the lowest.
  const auto other_speaks = [&] {
    return accuser_ >= 0 && accuser_ != transport_->rank() &&
           now() - accused_at_ < kAccusationLasts;
  };
  if (other_speaks()) return;
  const std::string line = investigate(lock, issued, since);
  if (issued.done || other_speaks()) return;
  fail_locked(line);
  throw CommError(line);
}

std::string Engine::investigate(std::unique_lock<std::mutex>& lock, const Issued& issued,
                                Seconds since) {
  const int self = transport_->rank();
  accuser_ = self;
  accused_at_ = now();
  ++query_;
  std::fill(answers_.begin(), answers_.end(), std::nullopt);
  answers_[static_cast<std::size_t>(self)] = position_in(issued.lane->id);
  attempt([&] {
    for (int peer = 0; peer < transport_->size(); ++peer) {
      if (peer == self) continue;
      transport_->send_control({ControlMessage::Kind::kQuery, self, issued.lane->id, query_, {}},
                               peer);
    }
  });
  const auto all_answered = [&] {
    return std::all_of(answers_.begin(), answers_.end(),
                       [](const auto& a) { return a.has_value(); });
  };
  const Seconds asked_at = now();
  const auto open = [&] {
    const Seconds passed = now() - asked_at;
    return passed < kShortestHearing || (passed < options_.answer_time && !all_answered());
  };
  while (!issued.done && open()) {
    const std::uint64_t seen = transport_->activity();
    poll(true);
    lock.unlock();
    transport_->idle(seen, 1000);
    lock.lock();
  }
  const grid::Group& group = issued.lane->group;
  const Stuck stuck{self,
                    to_string(group),
                    group.members,
                    [this](int rank) { return transport_->host(rank); },
                    place_of(issued),
                    awaited_rank(issued),
                    now() - since};
  return explain(stuck, answers_);
}

}  // namespace fourfold::comm
