// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/predictions.hpp"

namespace fourfold::planner {

namespace {

/// Equal for candidates that do the same. Names of strategies say which grids they allow; what is
/// done differs only between SUMMA and all others.
std::string key_of(const Candidate& c) {
  const grid::Sizes& s = c.sizes;
  return join(std::vector<std::int64_t>{config::strategy_of(c.strategy).summa ? 1 : 0, s.x, s.y,
                                        s.z, s.data, s.pipe, static_cast<int>(c.activations),
                                        c.checkpoint ? 1 : 0, c.micro_batch, c.chunks, c.zero},
              " ");
}

}  // namespace

Predictions::Of::Of(Predictions& all, const Candidate& candidate)
    : all_(&all), candidate_(candidate), key_(key_of(candidate)) {}

const Evaluation& Predictions::Of::evaluation(Bytes limit) {
  if (!evaluation_ || !evaluation_->is_complete()) {
    evaluation_.emplace(all_->config_, candidate_, limit, all_->profiles_.names());
  }
  return *evaluation_;
}

Bytes Predictions::Of::memory(Bytes limit) {
  {
    const std::lock_guard lock(all_->mutex_);
    const Entry& entry = all_->entries_[key_];
    if (entry.memory) return *entry.memory;
    if (entry.at_least > limit) return entry.at_least;
  }
  const Evaluation& found = evaluation(limit);
  const std::lock_guard lock(all_->mutex_);
  Entry& entry = all_->entries_[key_];
  entry.at_least = found.memory();
  if (found.is_complete()) entry.memory = found.memory();
  return entry.at_least;
}

Predicted Predictions::Of::price(const grid::Placement& placement) {
  {
    const std::lock_guard lock(all_->mutex_);
    const Entry& entry = all_->entries_[key_];
    const auto known = entry.prices.find(placement);
    if (known != entry.prices.end()) {
      Predicted found = known->second;
      found.candidate.strategy = candidate_.strategy;
      return found;
    }
  }
  const Predicted found = evaluation(Evaluation::kNoLimit).price(placement, all_->cluster_);
  const std::lock_guard lock(all_->mutex_);
  all_->entries_[key_].prices[placement] = found;
  return found;
}

}  // namespace fourfold::planner
