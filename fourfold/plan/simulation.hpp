// Runs a program: a compute stream for each place, and channels whose operations share links.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/plan/program.hpp"
#include "fourfold/plan/sharing.hpp"

namespace fourfold::plan {

/// A stretch of time of a place: of compute, of a wait, or of an operation.
struct Stretch {
  Instruction::Kind kind = Instruction::Kind::kCompute;
  const schedule::Step* step = nullptr;        ///< of compute and waits
  const schedule::Issue* operation = nullptr;  ///< that is waited for, or that runs
  double issued = 0;                           ///< of an operation that runs
  double begin = 0;
  double end = 0;
};

class Simulation {
 public:
  /// `most_steps`: no place repeats its step more often. `record`: whether stretches are kept.
  Simulation(const Program& program, const cluster::Cluster& cluster, std::size_t most_steps,
             bool record);

  /// The rest of the NICs' time is used by others. From 0 to 1.
  void limit_nics(std::size_t place, double out, double in);

  /// Goes on until every place has come to the end of the step `count` times. Each place then
  /// begins the same step again, so that some may be ahead of others.
  void run(std::size_t count);

  struct Place {
    std::vector<double> ends;                     ///< of each step
    std::vector<std::vector<double>> exposed;     ///< by step and channel
    std::vector<std::vector<Stretch>> stretches;  ///< of compute and waits, by step
    std::vector<Stretch> operations;              ///< in the order of their ends
  };
  const std::vector<Place>& places() const { return results_; }

 private:
  struct Stream {
    std::size_t at = 0;  ///< the next instruction
    bool computing = false;
    bool waiting = false;
    int busy = 0;        ///< operations under way: they slow compute down
    double left = 0;     ///< of the current compute, in seconds at full speed
    double since = 0;    ///< begin of the current compute or wait
    double settled = 0;  ///< the time at which `left` was right
    double end = 0;      ///< of the current compute
  };
  struct Line {
    std::vector<std::size_t> issued;             ///< operations so far, by place of the channel
    std::size_t done = 0;                        ///< operations so far
    std::vector<std::vector<double>> issued_at;  ///< by place of the channel, if recorded
    bool running = false;
    bool sending = false;  ///< after its latency
    int waiters = 0;       ///< places that stand still for the channel
    double began = 0;
    double left = 0;  ///< of the transfer, in seconds at full speed
    double settled = 0;
    double end = 0;  ///< of the latency or the transfer
    Flow flow;
  };

  double next_event() const;
  void advance(double time);
  void proceed(std::size_t place);
  bool satisfied(const Instruction& wait, std::size_t place) const;
  void begin_compute(std::size_t place, double seconds);
  void end_wait(std::size_t place);
  void issue(std::size_t place, std::size_t channel);
  void start(std::size_t channel, bool follows);
  void transfer(std::size_t channel);
  void finish(std::size_t channel);
  void set_busy(const Channel& channel, int change);
  void share();
  double weight_of(std::size_t channel) const;
  const OperationTime& time_of(std::size_t channel) const;
  const schedule::Issue& operation_of(std::size_t channel) const;

  const Program& program_;
  double slowdown_;
  bool priorities_;  // the library prefers what compute stands still for
  bool record_;
  std::size_t most_steps_;
  double now_ = 0;
  bool changed_ = false;  // operations began or ended, or are waited for: links are shared anew
  std::vector<Stream> streams_;
  std::vector<Line> lines_;
  std::vector<std::size_t> running_;  // channels with an operation under way
  std::vector<Flow*> flows_;
  std::vector<std::size_t> ended_;  // channels whose time has come, used within `advance`
  Sharing sharing_;
  std::vector<Place> results_;
};

}  // namespace fourfold::plan
