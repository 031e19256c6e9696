// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/timeline.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::comm {

void Timeline::begin_step(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  FOURFOLD_CHECK(!in_step(), "step ", steps_.back().number, " has not ended");
  reached_ = now();
  steps_.push_back({number, reached_, {}});
}

void Timeline::end_step() {
  const std::lock_guard lock(mutex_);
  FOURFOLD_CHECK(in_step(), "no step is under way");
  const Seconds end = now();
  add_compute({.name = kOther}, end);
  steps_.back().end = end;
}

void Timeline::compute(const Computed& computed) {
  const std::lock_guard lock(mutex_);
  if (!in_step()) return;
  add_compute({.name = std::string(computed.name),
               .layer = std::string(computed.layer),
               .work = computed.arithmetic.work,
               .phase = computed.phase,
               .flops = computed.arithmetic.flops,
               .bytes = computed.arithmetic.bytes},
              computed.until != Seconds() ? computed.until : now());
}

/// Adds the span, which reaches from the end of the last one to `end`.
void Timeline::add_compute(Span span, Seconds end) {
  if (end <= reached_) return;
  span.kind = Span::Kind::kCompute;
  span.step = steps_.back().number;
  span.begin = reached_;
  span.end = end;
  reached_ = end;
  spans_.push_back(std::move(span));
}

void Timeline::wait(Span span) {
  const std::lock_guard lock(mutex_);
  if (!in_step()) return;
  add_compute({.name = kOther}, span.begin);
  span.kind = Span::Kind::kWait;
  span.step = steps_.back().number;
  span.begin = reached_;
  if (span.end == Seconds()) span.end = now();
  reached_ = span.end;
  spans_.push_back(std::move(span));
}

void Timeline::operation(Span span) {
  const std::lock_guard lock(mutex_);
  if (steps_.empty()) return;
  // An operation that was issued before the first step is kept too, since it shares the network
  // with that step.
  const Step* step = &steps_.front();
  for (const Step& later : steps_) {
    if (later.begin <= span.issued) step = &later;
  }
  const bool over = step->end != Seconds() && span.issued > step->end;
  if (over) return;
  span.kind = Span::Kind::kOperation;
  span.step = step->number;
  spans_.push_back(std::move(span));
}

// --- what a world reports

void Timeline::issued(const Observed& operation, std::string_view layer) {
  const std::lock_guard lock(mutex_);
  issues_[operation.number] = {std::string(layer), now()};
}

/// The span of the operation, or of a wait for it, without times. If the operation was issued
/// before the timeline was attached, its layer is unknown.
Span Timeline::span_of(const Observed& operation) const {
  Span span{.name = std::string(schedule::to_string(operation.collective.op)),
            .axes = grid::to_string(operation.group.axes),
            .lane = operation.lane,
            .bytes = operation.collective.payload()};
  const std::lock_guard lock(mutex_);
  const auto issue = issues_.find(operation.number);
  if (issue == issues_.end()) return span;
  span.layer = issue->second.layer;
  span.issued = issue->second.at;
  return span;
}

void Timeline::ended(const Observed& operation, const Run& run) {
  if (run.ended == Seconds()) {  // it took no time, and is not waited for
    const std::lock_guard lock(mutex_);
    issues_.erase(operation.number);
    return;
  }
  Span span = span_of(operation);
  span.begin = run.started;
  span.end = run.ended;
  this->operation(std::move(span));
}

void Timeline::waited(const Observed& operation, const std::optional<Blocked>& blocked) {
  if (blocked) {
    Span span = span_of(operation);
    span.begin = blocked->since;
    span.end = blocked->resumed;
    wait(std::move(span));
  }
  const std::lock_guard lock(mutex_);
  issues_.erase(operation.number);
}

std::vector<Timeline::Step> Timeline::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

std::vector<Span> Timeline::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

}  // namespace fourfold::comm
