// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/sharing.hpp"

#include <algorithm>
#include <limits>

namespace fourfold::plan {

namespace {

constexpr double kNothing = 1e-12;

/// How fast the speed of a flow grows. The flow's share of the resource that it uses most grows by
/// its weight.
double growth_of(const Flow& flow) {
  double largest = 0;
  for (const Use& use : flow.uses) largest = std::max(largest, use.load);
  return largest > 0 ? flow.weight / largest : std::numeric_limits<double>::infinity();
}

}  // namespace

bool Sharing::fits(const std::vector<Flow*>& flows) {
  for (const Flow* flow : flows) {
    for (const Use& use : flow->uses) free_[use.resource] = capacity_[use.resource];
  }
  bool fits = true;
  for (const Flow* flow : flows) {
    for (const Use& use : flow->uses) fits = (free_[use.resource] -= use.load) >= -kNothing && fits;
  }
  return fits;
}

void Sharing::share(std::vector<Flow*>& flows) {
  if (fits(flows)) {
    for (Flow* flow : flows) flow->speed = 1;
    return;
  }
  std::vector<Flow*> growing;
  for (Flow* flow : flows) {
    const bool loads = growth_of(*flow) < std::numeric_limits<double>::infinity();
    flow->speed = loads ? 0 : 1;
    if (loads) growing.push_back(flow);
    for (const Use& use : flow->uses) free_[use.resource] = capacity_[use.resource];
  }
  while (!growing.empty()) {
    for (const Flow* flow : growing) {
      for (const Use& use : flow->uses) growth_[use.resource] = 0;
    }
    for (const Flow* flow : growing) {
      for (const Use& use : flow->uses) growth_[use.resource] += use.load * growth_of(*flow);
    }
    double step = std::numeric_limits<double>::infinity();
    for (const Flow* flow : growing) {
      step = std::min(step, (1 - flow->speed) / growth_of(*flow));
      for (const Use& use : flow->uses) {
        if (use.load > 0) step = std::min(step, free_[use.resource] / growth_[use.resource]);
      }
    }
    for (Flow* flow : growing) {
      const double more = step * growth_of(*flow);
      flow->speed += more;
      for (const Use& use : flow->uses) free_[use.resource] -= use.load * more;
    }
    std::erase_if(growing, [&](const Flow* flow) {
      return flow->speed >= 1 - kNothing ||
             std::any_of(flow->uses.begin(), flow->uses.end(), [&](const Use& use) {
               return use.load > 0 && free_[use.resource] <= kNothing;
             });
    });
  }
}

}  // namespace fourfold::plan
