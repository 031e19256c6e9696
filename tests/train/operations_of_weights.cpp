// SPDX-License-Identifier: Apache-2.0
#include "tests/train/operations_of_weights.hpp"

#include <algorithm>
#include <numeric>

namespace fourfold::test {

using schedule::Op;

void Uses::use(const std::string& name, const std::vector<Gather>& gathers) {
  const bool whole = std::all_of(gathers.begin(), gathers.end(), [&](const Gather& gather) {
    return grid_->size(gather.axes) == 1;
  });
  if (!whole) uses_.push_back({name, gathers});
}

void Uses::add_to(Operations& operations, bool keeps) const {
  constexpr int kNear = 3;
  std::map<std::string, int> last_turns;
  int turn = 0;
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    const Use& use = uses_[i];
    if (i > 0 && uses_[i - 1].name != use.name) ++turn;
    const auto before = last_turns.find(use.name);
    const bool there = before != last_turns.end() && (keeps || turn - before->second <= kNear);
    last_turns[use.name] = turn;
    if (there) continue;
    for (const Gather& gather : use.gathers) {
      if (gather.payload.count == 0) continue;
      operations.add(Op::kAllGather, gather.axes, gather.payload);
    }
  }
}

namespace {

/// Elements of the memory that has parameters of these sizes, in equal parts for the replicas.
std::int64_t flat(const std::vector<std::int64_t>& sizes, std::int64_t replicas) {
  constexpr std::int64_t kUnit = 32;
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  std::int64_t units = 0;
  for (const std::int64_t size : sizes) units += up(size, kUnit);
  return up(units, replicas) * replicas * kUnit;
}

}  // namespace

/// Gradients in the master type, and new values unless every rank has computed them.
void add_update(Operations& operations, const grid::Grid& grid, const train::Recipe& recipe,
                const Updated& updated) {
  const Type master(recipe.model->execution().precision.master);
  const auto send = [&](const std::vector<std::int64_t>& segment) {
    if (segment.empty()) return;
    const std::int64_t count = flat(segment, grid.size(updated.replicas));
    const auto add = [&](Op op, const Payload& payload) {
      operations.add(op, updated.replicas, payload.in_background(recipe.overlap.data));
    };
    if (recipe.optimizer.zero == optim::Zero::kNothing) {
      return add(Op::kAllReduce, count * master);
    }
    const bool each_pass = recipe.optimizer.zero == optim::Zero::kGradients;
    const std::int64_t sums = each_pass ? recipe.batch / recipe.micro_batch : 1;
    for (std::int64_t i = 0; i < sums; ++i) add(Op::kReduceScatter, count * master);
    add(Op::kAllGather, count * updated.type);
  };
  std::vector<std::int64_t> segment;
  for (const std::int64_t size : updated.sizes) {
    const std::int64_t sum = std::accumulate(segment.begin(), segment.end(), size);
    if (sum * master.bytes() > recipe.overlap.segment) {
      send(segment);
      segment.clear();
    }
    segment.push_back(size);
  }
  send(segment);
}

}  // namespace fourfold::test
