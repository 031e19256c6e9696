// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/clock.hpp"

#include <array>
#include <cmath>

namespace fourfold::comm {

namespace {

/// The number of questions. The one that is answered fastest counts, since its error is smallest.
constexpr int kQuestions = 16;

using Message = std::array<double, 1>;

void answer(const Communicator& everyone, int peer, const std::function<Seconds()>& clock) {
  for (int i = 0; i < kQuestions; ++i) {
    Message time{};
    everyone.recv(view(time), peer).wait();
    time[0] = clock().value();
    everyone.send(view(time), peer).wait();
  }
}

Seconds ask(const Communicator& everyone, const std::function<Seconds()>& clock) {
  Seconds offset;
  Seconds shortest(INFINITY);
  for (int i = 0; i < kQuestions; ++i) {
    Message time{};
    const Seconds begin = clock();
    everyone.send(view(time), 0).wait();
    everyone.recv(view(time), 0).wait();
    const Seconds end = clock();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    offset = Seconds(time[0]) - (begin + end) * 0.5;
  }
  return std::abs(offset.value()) <= shortest.value() / 2 ? Seconds() : offset;
}

}  // namespace

Seconds clock_offset(const Communicator& everyone, const std::function<Seconds()>& clock) {
  if (everyone.rank() != 0) return ask(everyone, clock);
  for (int peer = 1; peer < everyone.size(); ++peer) answer(everyone, peer, clock);
  return {};
}

}  // namespace fourfold::comm
