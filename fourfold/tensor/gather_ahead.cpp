// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/gather_ahead.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::tensor {

namespace {

/// The next use counts as near if it is at most this many turns later, that is, behind at most two
/// other units. The backward pass of what was just computed is that near.
constexpr std::size_t kNear = 3;
/// The same for the use by the other half, whose turns alternate with those of this half.
constexpr std::size_t kNearOfHalves = 4;

/// The time from one use of a unit to its next use.
struct Stay {
  std::size_t begin;
  std::size_t end;
  bool near;
};

}  // namespace

GatherPlan::GatherPlan(GatherOrder order, std::int64_t keep, bool halves)
    : order_(std::move(order)), origins_(order_.size()), stays_(order_.size(), false) {
  std::vector<Stay> stays;
  std::map<const Gatherable*, std::vector<std::size_t>> uses;
  std::vector<std::size_t> turns(order_.size(), 0);  // uses of one unit in a row are one turn
  for (std::size_t use = 0; use < order_.size(); ++use) {
    origins_[use] = use;
    if (use > 0) turns[use] = turns[use - 1] + (order_[use] == order_[use - 1] ? 0 : 1);
    std::vector<std::size_t>& before = uses[order_[use]];
    if (!before.empty()) {
      const bool second_half = halves && before.size() % 2 == 1;
      const std::size_t near = second_half ? kNearOfHalves : kNear;
      stays.push_back({before.back(), use, turns[use] - turns[before.back()] <= near});
    }
    before.push_back(use);
  }
  std::stable_sort(stays.begin(), stays.end(),
                   [](const Stay& a, const Stay& b) { return a.end - a.begin < b.end - b.begin; });
  std::vector<std::int64_t> kept(order_.size(), 0);
  for (const Stay& stay : stays) {
    const auto begin = kept.begin() + static_cast<std::ptrdiff_t>(stay.begin);
    const auto end = kept.begin() + static_cast<std::ptrdiff_t>(stay.end);
    if (!stay.near) {
      const std::int64_t bytes = order_[stay.begin]->gathered_bytes();
      if (*std::max_element(begin, end) + bytes > keep) continue;
      std::for_each(begin, end, [&](std::int64_t& sum) { sum += bytes; });
    }
    stays_[stay.begin] = true;
  }
  std::sort(stays.begin(), stays.end(),
            [](const Stay& a, const Stay& b) { return a.begin < b.begin; });
  for (const Stay& stay : stays) {
    if (stays_[stay.begin]) origins_[stay.end] = origins_[stay.begin];
  }
}

std::vector<Tensor> GatherAhead::take(const Gatherable& unit) {
  if (!unit.is_whole()) {
    if (names_ != nullptr) names_->push_back(unit.gather_name());
    if (plan_ != nullptr) return take_planned(unit);
  }
  Gathered now = unit.start_gather();
  now.wait();
  return std::move(now.tensors);
}

bool GatherAhead::starts(std::size_t use) const {
  return plan_->origin(use % plan_->size()) == use % plan_->size();
}

void GatherAhead::start(std::size_t use) {
  if (starts(use)) there_.emplace(use, unit(use).start_gather());
}

std::vector<Tensor> GatherAhead::take_planned(const Gatherable& unit) {
  FOURFOLD_CHECK(use_ < plan_->size() && &plan_->unit(use_) == &unit, unit.gather_name(),
                 " is used out of turn");
  for (; next_ <= use_; ++next_) start(next_);
  const std::size_t use = use_++;
  if (ahead_) look_ahead();
  const auto found = there_.find(plan_->origin(use));
  FOURFOLD_CHECK(found != there_.end(), unit.gather_name(), " is not there");
  found->second.wait();
  if (plan_->stays(use)) return found->second.tensors;
  std::vector<Tensor> tensors = std::move(found->second.tensors);
  there_.erase(found);
  return tensors;
}

void GatherAhead::look_ahead() {
  const std::size_t end = again_ ? 2 * plan_->size() : plan_->size();
  std::int64_t bytes = 0;
  for (auto item = there_.lower_bound(use_); item != there_.end(); ++item) {
    bytes += unit(item->first).gathered_bytes();
  }
  for (; next_ < end; ++next_) {
    if (!starts(next_)) continue;
    // A unit that is still arriving would have to be waited for here, so it is only started if
    // nothing else is ahead.
    const Gatherable& one = unit(next_);
    const bool fits = bytes + one.gathered_bytes() <= window_ && !one.arriving();
    if (bytes > 0 && !fits) return;
    start(next_);
    bytes += one.gathered_bytes();
  }
}

void GatherAhead::begin_pass(const GatherPlan& plan, bool again) {
  FOURFOLD_CHECK(plan_ == nullptr || plan_ == &plan, "a pass has begun and not ended");
  plan_ = &plan;
  again_ = again;
}

void GatherAhead::end_pass() {
  FOURFOLD_CHECK_EQ(use_, plan_->size(), "uses of a pass");
  use_ = 0;
  next_ = next_ > plan_->size() ? next_ - plan_->size() : 0;
  std::map<std::size_t, Gathered> rest;
  for (auto& [use, gathered] : there_) rest.emplace(use - plan_->size(), std::move(gathered));
  there_ = std::move(rest);
  if (!again_) plan_ = nullptr;
}

}  // namespace fourfold::tensor
