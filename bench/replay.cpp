// How long the replay of a training step takes: of one schedule, and of a pipeline of them.
//   replay
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/replay.hpp"

#include <algorithm>
#include <iostream>

#include "fourfold/cluster/load.hpp"

namespace {

using namespace fourfold;
using grid::Axis;
using schedule::Collective;
using schedule::Op;
using schedule::Priority;

void product(schedule::Schedule& schedule) {
  schedule.compute({.name = "linear",
                    .arithmetic = schedule::product_of({4096, 4096, 4096}, schedule::DType::kBF16,
                                                       Bytes(100 << 20)),
                    .layer = "h.0"});
}

/// Layers like those of a 4-D step: weights gathered ahead, activations reduced, gradients behind.
schedule::Schedule step_of(int layers) {
  schedule::Schedule schedule;
  const Collective weights{.op = Op::kAllGather, .count = 50 << 20};
  const Collective rows{.op = Op::kReduceScatter, .count = 10 << 20};
  const Collective gradient{
      .op = Op::kReduceScatter, .priority = Priority::kBackground, .count = 50 << 20};
  auto next = schedule.issue(weights, Axis::kZ, 8, 0, 1);
  std::vector<std::int64_t> behind;
  for (int layer = 0; layer < layers; ++layer) {
    const auto ready = next;
    next = schedule.issue(weights, Axis::kZ, 8, 0, 1);
    schedule.wait(ready);
    product(schedule);
    const auto reduced = schedule.issue(rows, Axis::kX, 4, 0, 2);
    product(schedule);
    schedule.wait(reduced);
    behind.push_back(schedule.issue(gradient, Axis::kData, 8, 0, 3));
    product(schedule);
    schedule.wait(schedule.issue(rows, Axis::kY, 4, 0, 4));
  }
  schedule.wait(next);
  for (const auto number : behind) schedule.wait(number);
  return schedule;
}

void measure(const std::string& name, const std::vector<schedule::Schedule>& places,
             const grid::Grid& grid) {
  const cluster::Cluster cluster = cluster::load("perlmutter");
  double best = 1e9;
  plan::Replayed replayed;
  for (int i = 0; i < 20; ++i) {
    const Seconds begin = now();
    replayed = plan::replay(places, grid, cluster);
    best = std::min(best, (now() - begin).value());
  }
  std::cout << name << ": " << places.size() << " x " << places[0].steps().size() << " steps in "
            << Seconds(best) << " (" << replayed.steps << " rounds, a step of " << replayed.step
            << ", " << replayed.places[0].exposed << " of it exposed)\n";
}

}  // namespace

int main() {
  const grid::Sizes sizes{.x = 4, .y = 4, .z = 8, .data = 8};
  measure("one place", {step_of(1000)}, grid::Grid(sizes));
  grid::Sizes with_pipe = sizes;
  with_pipe.pipe = 8;
  measure("eight places", std::vector<schedule::Schedule>(8, step_of(125)), grid::Grid(with_pipe));
}
