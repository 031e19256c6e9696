// The order in which the passes of a stage gather weights, remembered for trainings that are alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fourfold::train {

/// What the passes of one stage gather, in order, by name.
struct StageGathers {
  std::vector<std::string> forward;
  std::vector<std::string> backward;
};

/// The planner makes thousands of dry runs of the same stages, which differ in their samples: the
/// order is learned once. May be used by several threads.
class GatherNames {
 public:
  /// What is known for this key, or what `learn` returns.
  template <class Learn>
  StageGathers of(const std::string& key, const Learn& learn) {
    {
      const std::lock_guard lock(mutex_);
      const auto known = known_.find(key);
      if (known != known_.end()) return known->second;
    }
    StageGathers learned = learn();
    const std::lock_guard lock(mutex_);
    return known_.emplace(key, std::move(learned)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, StageGathers> known_;
};

}  // namespace fourfold::train
