// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/recorder.hpp"

namespace fourfold::comm {

void Recorder::computed(std::string_view name, Flops flops, Bytes bytes, std::string_view layer) {
  schedule_->compute(std::string(name), flops, bytes, std::string(layer));
}

void Recorder::issued(const Observed& operation, std::string_view /*layer*/) {
  const grid::Group& group = operation.group;
  recorded_[operation.number] = schedule_->issue(operation.collective, group.axes, group.size(),
                                                 group.index, operation.lane, operation.reach);
}

void Recorder::awaited(std::int64_t number) {
  // The operation may have been issued before the recording began.
  const auto found = recorded_.find(number);
  if (found == recorded_.end()) return;
  schedule_->wait(found->second);
  recorded_.erase(found);
}

}  // namespace fourfold::comm
