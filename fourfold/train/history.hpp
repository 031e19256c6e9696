// What the folder of a run knows of its steps, for a run that goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/train/metrics.hpp"

namespace fourfold::train {

struct History {
  Series<StepMetrics> steps;
  Series<Validation> validations;
};

/// Reads the metrics of the steps until `last`, and cuts off everything later from metrics.jsonl
/// and from TensorBoard's events, so that no step is there twice. A line that is damaged, such as
/// the last one of a process that was killed, is cut off, too. Throws IoError.
History cut_history(const std::string& folder, std::int64_t last, const std::string& unit);

}  // namespace fourfold::train
