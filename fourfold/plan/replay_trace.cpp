// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/replay_trace.hpp"

#include <algorithm>
#include <limits>

#include "fourfold/base/text.hpp"

namespace fourfold::plan {

namespace {

using comm::Span;
using schedule::Issue;

double begin_of(const Simulation::Place& place, std::size_t step) {
  return step == 0 ? 0 : place.ends[step - 1];
}

void describe(Span& span, const Issue& issue) {
  span.name = std::string(schedule::to_string(issue.collective.op));
  span.axes = grid::to_string(issue.axes);
  span.lane = issue.lane;
  span.bytes = issue.collective.payload();
}

Span span_of(const Stretch& stretch, double zero) {
  Span span;
  span.begin = Seconds(stretch.begin - zero);
  span.end = Seconds(stretch.end - zero);
  if (stretch.operation != nullptr) {
    const bool waits = stretch.kind == Instruction::Kind::kWait;
    span.kind = waits ? Span::Kind::kWait : Span::Kind::kOperation;
    if (!waits) span.issued = Seconds(stretch.issued - zero);
    describe(span, *stretch.operation);
    return span;
  }
  const auto& compute = std::get<schedule::Compute>(*stretch.step);
  span.kind = Span::Kind::kCompute;
  span.name = compute.name;
  span.layer = compute.layer;
  span.flops = compute.arithmetic.flops;
  span.bytes = compute.arithmetic.bytes;
  return span;
}

}  // namespace

std::vector<report::RankTrace> traces_of(const Simulation& simulation, std::size_t step,
                                         const grid::Grid& grid, const cluster::Cluster& cluster) {
  double zero = std::numeric_limits<double>::infinity();
  for (const auto& place : simulation.places()) zero = std::min(zero, begin_of(place, step));
  std::vector<report::RankTrace> traces;
  for (std::size_t i = 0; i < simulation.places().size(); ++i) {
    const Simulation::Place& place = simulation.places()[i];
    grid::Coord coord;
    coord[grid::Axis::kPipe] = static_cast<int>(i);
    report::RankTrace trace;
    trace.rank = grid.rank_of(coord);
    trace.host = std::to_string(trace.rank / cluster.gpus_per_host);
    trace.place = grid.size(grid::Axis::kPipe) > 1 ? concat("pipe=", i) : "";
    trace.steps = {{.number = static_cast<std::int64_t>(step),
                    .begin = Seconds(begin_of(place, step) - zero),
                    .end = Seconds(place.ends[step] - zero)}};
    for (const Stretch& stretch : place.stretches[step]) {
      trace.spans.push_back(span_of(stretch, zero));
    }
    for (const Stretch& stretch : place.operations) {
      if (stretch.end <= begin_of(place, step) || stretch.end > place.ends[step]) continue;
      trace.spans.push_back(span_of(stretch, zero));
      trace.lanes[stretch.operation->lane] = grid::to_string(stretch.operation->axes);
    }
    for (Span& span : trace.spans) span.step = static_cast<std::int64_t>(step);
    traces.push_back(std::move(trace));
  }
  return traces;
}

}  // namespace fourfold::plan
