// The steps of a run that are traced.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::train {

/// The steps from `first` to `last`, both included. No steps if `first` is 0.
struct TraceSteps {
  std::int64_t first = 0;
  std::int64_t last = 0;

  bool contain(std::int64_t step) const { return first <= step && step <= last; }
  bool operator==(const TraceSteps&) const = default;
};

/// Parses "3-5", or "3" for one step, of a run of `steps` steps. An empty text means one step after
/// the warm-up, if there is one. Throws ConfigError that names --trace-steps.
TraceSteps parse_trace_steps(const std::string& text, std::int64_t steps);

/// The same steps of a run that goes on after step `done`, or the third one from there on if they
/// were done before.
TraceSteps steps_after(std::int64_t done, TraceSteps traced, std::int64_t steps);

}  // namespace fourfold::train
