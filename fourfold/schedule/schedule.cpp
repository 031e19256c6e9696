// SPDX-License-Identifier: Apache-2.0
#include "fourfold/schedule/schedule.hpp"

#include <ostream>

#include "fourfold/base/check.hpp"

namespace fourfold::schedule {

Queue queue_of(const Issue& issue) {
  const Op op = issue.collective.op;
  if (op != Op::kSend && op != Op::kRecv) return {issue.lane};
  return {issue.lane, issue.collective.root, op == Op::kSend};
}

void Schedule::compute(std::string name, Flops flops, Bytes bytes, std::string layer) {
  steps_.emplace_back(Compute{std::move(name), flops, bytes, std::move(layer)});
}

std::int64_t Schedule::issue(const Collective& collective, const grid::Axes& axes, int group_size,
                             int index, int lane, Reach reach) {
  steps_.emplace_back(Issue{collective, axes, group_size, index, lane, operations_, reach});
  return operations_++;
}

void Schedule::wait(std::int64_t number) {
  FOURFOLD_CHECK(number < operations_, "operation ", number, " was never issued");
  steps_.emplace_back(Wait{number});
}

Traffic Schedule::traffic() const {
  Traffic sum;
  for (const Step& step : steps_) {
    if (const auto* issue = std::get_if<Issue>(&step)) {
      sum += traffic_of(issue->collective, issue->group_size, issue->index, issue->reach);
    }
  }
  return sum;
}

namespace {
struct Describe {
  std::string operator()(const Compute& step) const {
    return concat("compute ", step.layer, step.layer.empty() ? "" : " ", step.name, ": ",
                  step.flops, ", ", step.bytes);
  }
  std::string operator()(const Issue& step) const {
    return concat("issue #", step.number, " on lane ", step.lane, ": ", step.collective, " over ",
                  step.axes, " (", step.index, " of ", step.group_size,
                  step.reach == Reach::kNetwork ? ", across hosts)" : ")");
  }
  std::string operator()(const Wait& step) const { return concat("wait for #", step.number); }
};
}  // namespace

std::string to_string(const Step& step) {
  return std::visit(Describe{}, step);
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Step& step : schedule.steps()) text += to_string(step) + "\n";
  return text;
}
std::ostream& operator<<(std::ostream& out, const Schedule& schedule) {
  return out << to_string(schedule);
}

}  // namespace fourfold::schedule
