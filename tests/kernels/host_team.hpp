// Runs code that is also compiled for GPUs (kernels/both) with threads of the processor: as many as
// are asked for work on a row together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <thread>
#include <vector>

#include "fourfold/kernels/both/compiler.hpp"

namespace fourfold::test {

/// What the threads of a team share.
struct TeamRoom {
  explicit TeamRoom(int count) : threads(count), barrier(count), parts(count) {}
  int threads;
  std::barrier<> barrier;
  std::vector<double> parts;
};

/// One thread of a team. See cuda::Block.
class HostTeam {
 public:
  HostTeam(TeamRoom& room, int thread) : room_(room), thread_(thread) {}
  int thread() const { return thread_; }
  int threads() const { return room_.threads; }
  void barrier() { room_.barrier.arrive_and_wait(); }

  template <class A>
  A sum(A value) {
    return combined(value, [](A a, A b) { return a + b; });
  }
  template <class A>
  A largest(A value) {
    return combined(value, [](A a, A b) { return a < b ? b : a; });
  }

 private:
  template <class A, class Combine>
  A combined(A value, const Combine& combine) {
    barrier();
    room_.parts[static_cast<std::size_t>(thread_)] = static_cast<double>(value);
    barrier();
    auto all = static_cast<A>(room_.parts[0]);
    for (int i = 1; i < threads(); ++i) {
      all = combine(all, static_cast<A>(room_.parts[static_cast<std::size_t>(i)]));
    }
    return all;
  }

  TeamRoom& room_;
  int thread_;
};

template <class Body>
void run_rows(const Body& body, int threads) {
  TeamRoom room(threads);
  std::vector<std::thread> team;
  for (int t = 0; t < threads; ++t) {
    team.emplace_back([&room, &body, t] {
      HostTeam member(room, t);
      for (std::int64_t r = 0; r < body.rows; ++r) body(member, r);
    });
  }
  for (std::thread& thread : team) thread.join();
}

/// In the reverse order: no element may depend on another one.
template <class Body>
void run_elements(const Body& body) {
  for (std::int64_t i = body.count() - 1; i >= 0; --i) body(i);
}

}  // namespace fourfold::test
