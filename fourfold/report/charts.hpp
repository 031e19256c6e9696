// The charts of a page, as SVG with explanations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/report/palette.hpp"
#include "fourfold/report/run_data.hpp"

namespace fourfold::report {

/// Training and validation loss over steps.
std::string loss_chart(const RunData& run);

/// The time of steps, split into compute and waiting for each set of axes.
std::string step_chart(const RunData& run, const Palette& palette);

/// What each rank did during one step; and above that, on the same scale, what was predicted. If
/// there are many ranks, only some of them are drawn: those of the prediction and the first ones.
std::string timeline_chart(const RunData& run, const Palette& palette);

/// Combines steps in groups of equal size, so that there are at most `most` of them.
std::vector<std::vector<StepData>> grouped(const std::vector<StepData>& steps, std::size_t most);
/// How many steps these entries stand for together.
std::int64_t steps_in(const std::vector<StepData>& group);

}  // namespace fourfold::report
