// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/observer.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::comm {

void Observers::add(Observer& observer) {
  const std::lock_guard lock(mutex_);
  FOURFOLD_CHECK(std::ranges::find(list_, &observer) == list_.end(),
                 "an observer that observes the world already");
  list_.push_back(&observer);
}

void Observers::remove(Observer& observer) {
  const std::lock_guard lock(mutex_);
  std::erase(list_, &observer);
}

void Observers::ended(const Observed& operation, const Run& run) const {
  const std::lock_guard lock(mutex_);
  for (Observer* observer : list_) observer->ended(operation, run);
}

bool Observers::want_times() const {
  return std::ranges::any_of(list_, [](const Observer* each) { return each->wants_times(); });
}

}  // namespace fourfold::comm
