// SPDX-License-Identifier: Apache-2.0
#include "fourfold/schedule/schedule.hpp"

#include <algorithm>
#include <ostream>

#include "fourfold/base/check.hpp"

namespace fourfold::schedule {

Queue queue_of(const Issue& issue) {
  const Op op = issue.collective.op;
  if (op != Op::kSend && op != Op::kRecv) return {issue.lane};
  return {issue.lane, issue.collective.root, op == Op::kSend};
}

void Schedule::compute(Compute step) {
  steps_.emplace_back(std::move(step));
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

std::vector<const Issue*> issues_of(const Schedule& schedule) {
  std::vector<const Issue*> issues;
  for (const Step& step : schedule.steps()) {
    if (const auto* issue = std::get_if<Issue>(&step)) issues.push_back(issue);
  }
  return issues;
}

void check_same_issues(const Schedule& before, const Schedule& step) {
  const std::vector<const Issue*> old = issues_of(before);
  const std::vector<const Issue*> now = issues_of(step);
  for (std::size_t i = 0; i < std::min(old.size(), now.size()); ++i) {
    FOURFOLD_CHECK(*old[i] == *now[i], "two steps differ: ", to_string(Step(*old[i])), " and then ",
                   to_string(Step(*now[i])));
  }
  FOURFOLD_CHECK(old.size() == now.size(), "a step issues ", old.size(),
                 " operations, and the next one ", now.size());
}

}  // namespace

void check_periodic(const Schedule& before, const Schedule& step) {
  check_same_issues(before, step);
  const std::int64_t count = step.operations();
  std::vector<int> waits(static_cast<std::size_t>(count), 0);
  for (const Step& one : step.steps()) {
    const auto* wait = std::get_if<Wait>(&one);
    if (wait == nullptr) continue;
    FOURFOLD_CHECK(wait->number >= -count, "a wait for an operation of an earlier step than the ",
                   "last: ", wait->number, " of ", count);
    ++waits[static_cast<std::size_t>(wait->number < 0 ? wait->number + count : wait->number)];
  }
  for (std::size_t i = 0; i < waits.size(); ++i) {
    FOURFOLD_CHECK(waits[i] == 1, "operation ", i, " is waited for ", waits[i], " times");
  }
}

namespace {
struct Describe {
  std::string operator()(const Compute& step) const { return concat("compute ", to_string(step)); }
  std::string operator()(const Issue& step) const {
    return concat("issue #", step.number, " on lane ", step.lane, ": ", step.collective, " over ",
                  step.axes, " (", step.index, " of ", step.group_size,
                  step.reach == Reach::kNetwork ? ", across hosts)" : ")");
  }
  std::string operator()(const Wait& step) const {
    if (step.number >= 0) return concat("wait for #", step.number);
    return concat("wait for #", step.number, ", of the step before");
  }
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
