// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/bad_step.hpp"

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::train {

std::string describe(const BadStep& step) {
  const std::string first_in = step.layer.empty() ? "" : ", first in " + step.layer;
  std::string text = concat("step ", step.number, ": ", describe(step.first), "; ");
  if (step.reproducible())
    return text + "the same in a second run of the step (reproducible)" + first_in;
  text += "a second run of the step ";
  text += step.second ? concat("went wrong elsewhere: ", describe(*step.second), first_in)
                      : std::string("had finite numbers");
  return text + " (transient: memory or a processor may be faulty)";
}

void SkippedSteps::after(std::int64_t step, bool skipped) {
  in_a_row_ = skipped ? in_a_row_ + 1 : 0;
  if (in_a_row_ < kMostInARow) return;
  throw Error(
      concat("step ", step, " is the last of ", kMostInARow,
             " in a row that update nothing, since their numbers are not finite: go on from "
             "an earlier checkpoint, with a smaller optim.lr or with other data"));
}

}  // namespace fourfold::train
