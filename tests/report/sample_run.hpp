// A run that never was, for pages about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/base/text.hpp"
#include "fourfold/report/run_data.hpp"

namespace fourfold::test {

inline comm::Span compute(double begin, double end, const char* name = "linear") {
  return {.kind = comm::Span::Kind::kCompute,
          .name = name,
          .work = schedule::Work::kProduct,
          .phase = schedule::Phase::kBackward,
          .flops = Flops(1e6),
          .step = 3,
          .begin = Seconds(begin),
          .end = Seconds(end)};
}

inline comm::Span operation(double begin, double end, int lane, const char* axes,
                            const char* name = "all_gather") {
  return {.kind = comm::Span::Kind::kOperation,
          .name = name,
          .axes = axes,
          .lane = lane,
          .bytes = Bytes(4096),
          .step = 3,
          .issued = Seconds(begin - 0.25),
          .begin = Seconds(begin),
          .end = Seconds(end)};
}

inline comm::Span wait(double begin, double end, int lane, const char* axes) {
  comm::Span span = operation(begin, end, lane, axes);
  span.kind = comm::Span::Kind::kWait;
  return span;
}

/// Step 3 of a rank, 10 to 20 seconds on the clock: compute, a wait, compute; operations of two
/// lanes.
inline report::RankTrace sample_trace(int rank) {
  report::RankTrace trace;
  trace.rank = rank;
  trace.host = "n1";
  trace.place = concat("x=", rank);
  trace.lanes = {{2, "x activations"}, {5, "z weights"}};
  trace.steps = {{3, Seconds(10), Seconds(20)}};
  trace.spans = {compute(10, 13),
                 wait(13, 14, 2, "x"),
                 compute(14, 20, "other"),
                 operation(12, 14, 2, "x"),
                 operation(14, 15, 2, "x", "reduce_scatter"),
                 operation(11, 17, 5, "z")};
  return trace;
}

inline report::RunData sample_run(int steps = 5, int ranks = 2) {
  report::RunData run;
  run.name = "sample";
  run.about = "a model on a grid";
  run.figures = {{"loss", "1.2345"}, {"mfu", "0.5"}};
  run.facts = {{"started", "2025-03-01 14:05:09 +0100"}, {"command", "fourfold train a.toml"}};
  for (int i = 1; i <= steps; ++i) {
    run.steps.push_back({i, 5.0 / i, Seconds(0.5), {{"x", Seconds(0.1)}, {"y+z", Seconds(0.05)}}});
  }
  run.validations = {{1, 5.5}, {steps, 5.25}};
  run.communication[{schedule::Op::kAllGather, "x", 2}] = {4 * steps,
                                                           Bytes(2048 * steps),
                                                           {Bytes(1024 * steps), 8 * steps},
                                                           Seconds(0.2 * steps),
                                                           Seconds(0.1 * steps)};
  run.communication[{schedule::Op::kAllReduce, "y+z", 2}] = {steps,
                                                             Bytes(8 * steps),
                                                             {Bytes(16 * steps), steps},
                                                             Seconds(0.06 * steps),
                                                             Seconds(0.05 * steps)};
  run.communication[{schedule::Op::kAllReduce, "data", 1}] = {steps, {}, {}, {}, {}};
  run.memory = {{"parameters", Bytes(1 << 20)}, {"gradients", Bytes(1 << 19)}};
  run.configuration = "[model]\nwidth = 24\n";
  for (int rank = 0; rank < ranks; ++rank) run.traces.push_back(sample_trace(rank));
  return run;
}

}  // namespace fourfold::test
