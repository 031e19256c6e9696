// The part of the engine that agrees with other ranks which of them acts for all, and answers
// their messages about it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "fourfold/comm/engine.hpp"

namespace fourfold::comm {

namespace {

using Kind = ControlMessage::Kind;

static_assert(sizeof(ControlMessage) < 512, "docs/communication.md says so");

/// How long the rank that ends the job keeps advancing the messages that tell the other ranks.
constexpr Seconds kTelling{0.05};
/// After so long without an answer the next arbiter is asked as well who may ask all ranks.
constexpr Seconds kNextArbiter{0.75};

std::size_t index_of(Right right) {
  return static_cast<std::size_t>(right);
}

}  // namespace

void Engine::send_control(const ControlMessage& message, int peer) {
  ++control_messages_;
  transport_->send_control(message, peer);
}

void Engine::answer_control() {
  while (const auto message = transport_->receive_control()) answer(*message);
  rule_claims();
}

void Engine::answer(const ControlMessage& message) {
  switch (message.kind) {
    case Kind::kQuery:
      send_control({.kind = Kind::kAnswer,
                    .from = transport_->rank(),
                    .lane = message.lane,
                    .query = message.query,
                    .position = position_in(message.lane)},
                   message.from);
      break;
    case Kind::kAnswer:
      if (message.query == query_) {
        answers_[static_cast<std::size_t>(message.from)] = message.position;
      }
      break;
    case Kind::kClaim:
      courts_[index_of(message.right)].hear(message.from, message.order, now());
      break;
    case Kind::kVerdict:
      verdicts_[index_of(message.right)] = message.holder;
      break;
    case Kind::kRelease:
      courts_[index_of(message.right)].release(message.from);
      break;
    case Kind::kEnd:
      transport_->expect_end(message.status);
      break;
    case Kind::kInvite:
      if (device_ != nullptr) {
        device_->invited(message.invitation);
      } else {
        invitations_.push_back(message.invitation);
      }
      break;
  }
}

void Engine::rule_claims() {
  for (const Right right : {Right::kAsk, Right::kEnd}) {
    const auto ruling = courts_[index_of(right)].rule(now());
    if (!ruling) continue;
    const ControlMessage verdict{.kind = Kind::kVerdict,
                                 .from = transport_->rank(),
                                 .right = right,
                                 .holder = ruling->holder};
    for (const int claimant : ruling->claimants) {
      if (claimant == transport_->rank()) {
        answer(verdict);
      } else {
        send_control(verdict, claimant);
      }
    }
  }
}

/// Returns the rank that has the right. Returns -1 when no arbiter answers, or when `until` is done
/// first. The lock, if given, is released now and then.
int Engine::claim(Right right, int order, std::unique_lock<std::mutex>* lock, const Issued* until) {
  const int self = transport_->rank();
  int& verdict = verdicts_[index_of(right)];
  verdict = -1;
  std::vector<int> asked;
  for (const int arbiter : arbiters(transport_->size())) {
    if (std::ranges::find(silent_, arbiter) == silent_.end()) asked.push_back(arbiter);
  }
  // To ask is harmless if two ranks do it, so that the next arbiter need not wait for a slow one.
  const Seconds apart =
      right == Right::kAsk ? std::min(kNextArbiter, options_.answer_time) : options_.answer_time;
  if (right == Right::kAsk) claimed_from_.clear();
  const Seconds begin = now();
  for (std::size_t next = 0; next < asked.size() || now() - begin < until_answered(next, apart);) {
    if (next < asked.size() && now() - begin >= static_cast<double>(next) * apart) {
      if (right == Right::kAsk) claimed_from_.push_back(asked[next]);
      send_to_arbiter({.kind = Kind::kClaim, .from = self, .right = right, .order = order},
                      asked[next++]);
    }
    const std::uint64_t seen = transport_->activity();
    if (until != nullptr) {
      poll(true);
    } else {
      answer_control();
    }
    if (verdict >= 0 || (until != nullptr && until->done)) return verdict;
    if (lock != nullptr) lock->unlock();
    transport_->idle(seen, 1000);
    if (lock != nullptr) lock->lock();
  }
  return -1;
}

/// How long a rank that has asked so many arbiters waits for them, from its first question on.
Seconds Engine::until_answered(std::size_t asked, Seconds apart) const {
  return asked == 0 ? Seconds() : static_cast<double>(asked - 1) * apart + options_.answer_time;
}

/// A question did not end the job, or was not needed any more. If this rank stops soon, another one
/// must get the right at once.
void Engine::release_right_to_ask() {
  for (const int arbiter : std::exchange(claimed_from_, {})) {
    send_to_arbiter({.kind = Kind::kRelease, .from = transport_->rank(), .right = Right::kAsk},
                    arbiter);
  }
}

void Engine::send_to_arbiter(const ControlMessage& message, int arbiter) {
  if (arbiter == transport_->rank()) {
    answer(message);
  } else {
    send_control(message, arbiter);
  }
}

/// Returns the rank that is to report why the job ends. A rank with an error of its own comes
/// before ranks that only see the consequences.
int Engine::agree_who_ends(Cause cause, int status) {
  const int self = transport_->rank();
  const int size = transport_->size();
  if (size == 1 || transport_->tells_failures()) return self;
  try {
    const int ender =
        claim(Right::kEnd, cause == Cause::kOwn ? self : size + self, nullptr, nullptr);
    if (ender >= 0 && ender != self) return ender;
    for (int peer = 0; peer < size; ++peer) {
      if (peer != self) send_control({.kind = Kind::kEnd, .from = self, .status = status}, peer);
    }
    for (const Seconds sent = now(); now() - sent < kTelling;) {
      const std::uint64_t seen = transport_->activity();
      answer_control();
      transport_->idle(seen, 1000);
    }
  } catch (const std::exception&) {
    // The network has failed too, so this rank reports the error itself.
  }
  return self;
}

}  // namespace fourfold::comm
