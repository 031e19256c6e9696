// What a run tells its user while it goes on, and keeps of itself: lines, metrics, results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fourfold/formats/png.hpp"
#include "fourfold/report/run_data.hpp"
#include "fourfold/train/history.hpp"
#include "fourfold/train/metrics.hpp"
#include "fourfold/train/run.hpp"

namespace fourfold::train {

/// On all ranks but the first it does nothing. A disk that fails does not end a run before its
/// results are to be written.
class RunRecord {
 public:
  /// `spec` and `console` must outlive this.
  RunRecord(const RunSpec& spec, const Console& console, bool first);

  /// Writes a line to the user and, once there is a folder, to its log.
  void say(const std::string& line);

  /// From now on everything goes to files of this folder, too, the lines from before first.
  /// `before` are the steps that the run did earlier.
  void open(const std::string& folder, History before);

  /// Waits until all metrics are on the disk, if it takes them: a checkpoint is to outlive none of
  /// its steps.
  void flush();

  void step(const StepMetrics& step);
  void validation(std::int64_t number, double loss);
  void picture(std::int64_t number, const formats::Picture& picture);

  /// Says how fast the run was, beside what was predicted. `flops` are those of a step.
  void summarise(Flops flops, const std::optional<Prediction>& predicted);
  /// The files of `--json` and `--report`.
  void write_results(std::vector<report::RankTrace> traces, std::optional<Prediction> predicted);

  RunMetrics metrics;  ///< what is not told by the functions above is filled in by the run

 private:
  void tell(const StepMetrics& step);
  void tell_failures();
  void compare(Seconds step, const Prediction& predicted);
  std::vector<report::PictureData> latest_pictures() const;

  const RunSpec* spec_;
  const Console* console_;
  bool first_;
  Seconds begin_ = now();
  std::string folder_;
  std::optional<MetricsFiles> files_;
  std::vector<std::string> said_;      // lines from before there were files
  bool failing_ = false;               // whether the user knows that files cannot be written
  std::vector<Seconds> recent_;        // times of the last steps
  std::int64_t steps_ = 0;             // of this process
  std::vector<std::string> pictures_;  // their names in the folder, the oldest first
};

}  // namespace fourfold::train
