// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/trace_steps.hpp"

#include <algorithm>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::train {

namespace {

/// The step that is traced by default.
constexpr std::int64_t kUsualStep = 3;

}  // namespace

TraceSteps parse_trace_steps(const std::string& text, std::int64_t steps) {
  if (text.empty()) return {std::min(kUsualStep, steps), std::min(kUsualStep, steps)};
  const std::vector<std::string> parts = split(text, '-');
  const auto first = parse_int(parts.front());
  const auto last = parse_int(parts.back());
  if (parts.size() > 2 || !first || !last) {
    throw ConfigError(
        concat("--trace-steps ", text, " is not a step such as 5, or two such as 5-7"));
  }
  if (*first > *last) {
    throw ConfigError(concat("--trace-steps ", text, ": the first step is behind the last"));
  }
  if (*first < 1 || *last > steps) {
    throw ConfigError(concat("--trace-steps ", text, ": the run has the steps 1 to ", steps));
  }
  return {*first, *last};
}

TraceSteps steps_after(std::int64_t done, TraceSteps traced, std::int64_t steps) {
  if (traced.first > done) return traced;
  const std::int64_t third = std::min(done + kUsualStep, steps);
  return {third, third};
}

}  // namespace fourfold::train
