// How the best plan changes with the number of devices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/planner/plan.hpp"

namespace fourfold::planner {

struct ScalingPoint {
  int ranks = 1;
  std::optional<Predicted> plan;  ///< the best; none if nothing fits
  Figures figures;
};

struct Scaling {
  std::string cluster;
  std::string remark;  ///< where a number of devices is larger than that of the cluster
  std::int64_t batch = 0;
  std::string unit = "tokens";  ///< or "images"
  std::vector<ScalingPoint> points;

  /// Units a second of a point over those of the first one that has a plan, and the same for each
  /// device.
  double speedup(const ScalingPoint& point) const;
  double efficiency(const ScalingPoint& point) const;
};

/// The number of devices doubles from `first` to at most `last`. `shown` is called after each.
/// Throws ConfigError like `check_found` if nothing fits at all.
Scaling scale(const Question& question, int first, int last,
              const std::function<void(const ScalingPoint&)>& shown = {});

std::string to_text(const Scaling& scaling);
std::string to_json(const Scaling& scaling);
/// A page of HTML with the curves of tokens or images a second and mfu.
std::string to_page(const Scaling& scaling);

}  // namespace fourfold::planner
