// The metrics of the steps of a run, and the files that they are written to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/comm/counters.hpp"
#include "fourfold/formats/append_file.hpp"
#include "fourfold/formats/json_lines.hpp"
#include "fourfold/formats/tensorboard.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/run_facts.hpp"
#include "fourfold/train/series.hpp"

namespace fourfold::train {

/// The time that one kind of operation took in a step.
struct CommunicationTime {
  schedule::Op op = schedule::Op::kBarrier;
  std::string axes;
  Seconds seconds;  ///< from an operation's first message to its end
  Seconds exposed;  ///< time in which compute was blocked by it
};

/// One step, as rank 0 measured it, or the mean of several steps.
struct StepMetrics {
  std::int64_t step = 0;  ///< the last of the steps
  double loss = 0;
  double grad_norm = 0;
  double rate = 0;
  Seconds seconds{};
  Seconds exposed{};  ///< time in which compute was blocked by communication
  std::vector<CommunicationTime> communication{};
  double units_per_second = 0;  ///< tokens or images
  double mfu = 0;
  std::int64_t count = 1;  ///< the number of steps
  std::int64_t skipped =
      0;  ///< of these: steps that updated nothing, since a number was not finite

  /// Makes this the mean of its steps and some later steps. Loss and norm are those of the steps
  /// that were not skipped.
  void merge(const StepMetrics& later);
};

/// One validation, or the mean of several.
struct Validation {
  std::int64_t step = 0;  ///< the step of the last one
  double loss = 0;
  std::int64_t count = 1;

  void merge(const Validation& later);
};

/// A whole run. Memory and bytes are those of rank 0, or of the rank that has most, as noted.
struct RunMetrics {
  RunFacts facts;
  int ranks = 1;
  std::string grid;
  Series<StepMetrics> steps;
  comm::Counts communication;  ///< of rank 0, in all steps
  tensor::MemoryUse memory;    ///< the peak of each class, of the rank where it is largest
  Bytes construction;          ///< the peak before the first step, of the rank where it is largest
  Bytes peak;                  ///< the same for the whole training
  Series<Validation> validations;
  double units_per_second = 0;  ///< of the median step; the first step is left out
  FlopsPerSecond model_flops;   ///< of the median step
  FlopsPerSecond gemm_flops;    ///< of all ranks together, measured at the start
  Seconds predicted_step;       ///< 0 where nothing was predicted
  Bytes predicted_memory;       ///< the same
  double mfu = 0;
  Bytes peak_rss;                ///< of the rank where it is largest
  std::int64_t checkpoints = 0;  ///< that were saved
  Seconds checkpoint_blocked;    ///< how long training stood still for them
};

/// "step 12/200  loss 5.1234  lr 3.0e-04 ...": for people. `unit` is what data is counted in.
std::string describe(const StepMetrics& step, std::int64_t steps, Seconds left,
                     const std::string& unit);

/// So many units a second, for people: "5123 tokens/s", "51.3 images/s".
std::string describe_rate(double units_per_second, const std::string& unit);

/// "1h02m", "3m05s", "12s".
std::string short_time(Seconds time);

/// The file of `train --json`.
std::string to_json(const RunMetrics& run);

/// Adds the counts of one step to those of the steps before.
void add(comm::Counts& sum, const comm::Counts& more);
Seconds exposed(const comm::Counts& counts);

/// The times of operations in groups of more than one rank.
std::vector<CommunicationTime> communication_times(const comm::Counts& counts);

/// Exposed time by the axes of the groups.
std::map<std::string, Seconds> exposed_by_axes(const StepMetrics& step);

/// How many steps of a run updated nothing.
std::int64_t skipped_steps(const std::vector<StepMetrics>& steps);

/// The median of the steps without the first, which is slower because of one-time work. For a long
/// run it is the median of the means that are kept.
Seconds median_step(const std::vector<StepMetrics>& steps);

/// The median of some times; zero if there are none.
Seconds median(std::vector<Seconds> times);

/// The files of metrics in a run folder: metrics.jsonl, TensorBoard's events, log.txt. A disk that
/// fails later does not end a run: `failure` tells, and what could not be written is written when
/// it can be.
class MetricsFiles {
 public:
  /// `unit` is what data is counted in. Throws IoError.
  MetricsFiles(const std::string& folder, std::string unit);

  void step(const StepMetrics& step);
  void validation(std::int64_t step, double loss);
  /// Writes one line to the log.
  void log(const std::string& line);
  /// Waits until everything is on the disk.
  void flush();

  /// Why something could not be written yet; empty if everything is written.
  const std::string& failure() const { return failure_; }

 private:
  template <class... Writes>
  void attempt(const Writes&... writes);

  std::string failure_;
  std::string unit_;
  formats::JsonLines lines_;
  formats::EventWriter events_;
  formats::AppendFile log_;
};

}  // namespace fourfold::train
