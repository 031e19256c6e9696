// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/round.hpp"

namespace fourfold::comm {

void Round::start(const Outgoing& out, const Incoming& in) {
  out_ = out;
  in_ = in;
  sent_ = posted_ = received_ = 0;
}

bool Round::advance() {
  for (bool moved = true; moved;) {
    moved = post_receives();
    moved |= post_sends();
    for (; !receives_.empty() && port_.test(receives_.front()); moved = true) {
      receives_.pop();
      ++received_;
    }
    for (; !sends_.empty() && port_.test(sends_.front()); moved = true) sends_.pop();
  }
  return received_ == to_receive() && sent_ == to_send() && sends_.empty();
}

int Round::awaited() const {
  if (received_ < to_receive()) return in_.peer;
  return sent_ < to_send() || !sends_.empty() ? out_.peer : -1;
}

bool Round::post_receives() {
  bool moved = false;
  for (; posted_ < to_receive() && !receives_.full(); ++posted_, moved = true) {
    const schedule::Chunk elements = cut_.segment({0, in_.count}, posted_);
    receives_.push(port_.receive(in_.data + elements.begin * cut_.element_size,
                                 elements.size() * cut_.element_size, in_.peer));
  }
  return moved;
}

bool Round::post_sends() {
  bool moved = false;
  // This limit cannot deadlock: of the ranks in the earliest round, the one that has received least
  // gets its messages from a rank that has received at least as much.
  const auto may_send = [&] {
    return received_ == to_receive() || sent_ - received_ < cut_.lead(port_);
  };
  for (; sent_ < to_send() && !sends_.full() && may_send(); ++sent_, moved = true) {
    const schedule::Chunk elements = cut_.segment({0, out_.count}, sent_);
    sends_.push(port_.send(out_.data + elements.begin * cut_.element_size,
                           elements.size() * cut_.element_size, out_.peer));
  }
  return moved;
}

}  // namespace fourfold::comm
