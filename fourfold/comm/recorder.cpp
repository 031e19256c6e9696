// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/recorder.hpp"

#include "fourfold/base/check.hpp"

namespace fourfold::comm {

void Recorder::computed(const Computed& computed) {
  schedule_->compute({std::string(computed.name), computed.arithmetic, computed.phase,
                      std::string(computed.layer)});
}

void Recorder::issued(const Observed& operation, std::string_view /*layer*/) {
  const grid::Group& group = operation.group;
  const std::int64_t number = schedule_->issue(operation.collective, group.axes, group.size(),
                                               group.index, operation.lane, operation.reach);
  FOURFOLD_CHECK_EQ(number, operation.number - first_, "the recording missed operations");
}

void Recorder::awaited(std::int64_t number) {
  schedule_->wait(number - first_);
}

}  // namespace fourfold::comm
