// What a run keeps in its folder beside its results: who writes there, its configuration, and logs
// of its ranks. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "fourfold/comm/flight_recorder.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/train/run_folder.hpp"

namespace fourfold::train {

class RunFiles {
 public:
  /// On the first rank, before it reads a folder in which a run has begun. See FolderLock.
  void lock(const std::string& folder);
  /// On the first rank: makes the folder that of a run which goes on after step `done`.
  void begin(const std::string& folder, const config::Config& config, std::int64_t done);

  /// On every rank: begins a log of what the rank does, for `fourfold autopsy`. Without it a run
  /// trains as well; then this says why there is none.
  std::string keep_log(comm::World& world, const std::string& folder);
  void begin_step(std::int64_t number);
  /// Logs are of no use when all is well.
  void drop_log();

 private:
  std::optional<FolderLock> lock_;
  std::optional<comm::FlightRecorder> log_;
  std::string log_folder_;
  std::string log_file_;
};

}  // namespace fourfold::train
