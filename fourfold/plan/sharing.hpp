// How operations that are under way at once share links.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace fourfold::plan {

/// A part of a resource that a flow uses when it runs at full speed, from 0 to 1.
struct Use {
  std::size_t resource = 0;
  double load = 0;
};

struct Flow {
  double weight = 1;
  std::vector<Use> uses;
  double speed = 1;  ///< the result: the part of its full speed
};

/// Weighted max-min fairness: the shares of all flows grow in proportion to their weights, until a
/// flow runs at full speed or a resource that it uses is used in full.
class Sharing {
 public:
  explicit Sharing(std::size_t resources)
      : capacity_(resources, 1), free_(resources), growth_(resources) {}

  /// From now on the flows have this part of the resource, from 0 to 1.
  void limit(std::size_t resource, double capacity) { capacity_[resource] = capacity; }

  void share(std::vector<Flow*>& flows);

 private:
  bool fits(const std::vector<Flow*>& flows);

  std::vector<double> capacity_;
  std::vector<double> free_;    // by resource: what no flow uses yet
  std::vector<double> growth_;  // by resource: how fast it is being used up
};

}  // namespace fourfold::plan
