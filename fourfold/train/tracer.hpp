// Traces some steps of a run on every rank, and gathers the traces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "fourfold/comm/timeline.hpp"
#include "fourfold/comm/world.hpp"
#include "fourfold/report/rank_trace.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/train/trace_steps.hpp"

namespace fourfold::train {

/// Every rank must call the functions in the same order. Messages are only sent after the traced
/// steps.
class Tracer {
 public:
  Tracer(tensor::Mesh& mesh, TraceSteps steps) : mesh_(&mesh), steps_(steps) {}
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Call these around the step that is timed. A device has nothing to do at both ends of a traced
  /// step. On processors, operations may still be under way after the last traced step.
  void begin_step(std::int64_t number);
  void end_step(std::int64_t number);

  /// Whether `number` is the step after which all operations of the traced steps have ended, since
  /// the next step needed their results.
  bool ends_with(std::int64_t number) const { return number == steps_.last + 1; }

  /// Stops tracing. Returns the traces of all ranks on rank 0, and nothing on other ranks.
  /// Collective.
  std::vector<report::RankTrace> collect();

 private:
  tensor::Mesh* mesh_;
  TraceSteps steps_;
  comm::Timeline timeline_;
  comm::Observation observation_;  // destroyed before what it tells
};

}  // namespace fourfold::train
