// The folder that a run writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fourfold::train {

/// Makes the folder, which must not exist or must be empty. If `out` is empty, a new folder is made
/// in runs/, named after the configuration and the time. Throws ConfigError when the folder cannot
/// be made. Returns its path.
std::string make_run_folder(const std::string& out, const std::string& name);

/// The name of a folder in runs/ that does not exist yet, after the configuration and the time.
std::string new_run_folder(const std::string& name);

/// Whether a run has begun in the folder.
bool is_run_folder(const std::string& folder);

/// Whether there is a checkpoint in the folder, good or not.
bool has_checkpoint(const std::string& folder);

/// Where the ranks of the run keep logs of what they do.
std::string flight_folder(const std::string& folder);

/// Where those of the ranks that ran before these are.
std::string earlier_flight_folder(const std::string& folder);

/// The last step that the metrics in the folder have; 0 for none.
std::int64_t last_step(const std::string& folder);

/// Notes the step after which the ranks that run now begin.
void mark_begun(const std::string& folder, std::int64_t step);

/// Forgets that, and a bad step: others are about to begin.
void forget_begun(const std::string& folder);

/// Whether the ranks that began last have done a step.
bool has_moved(const std::string& folder);

/// Notes that the ranks that run now end at a step whose numbers are not finite, if the disk takes
/// it.
void mark_bad_step(const std::string& folder, std::int64_t step);

/// The step that the ranks that ran last have noted so; nothing if there is none.
std::optional<std::int64_t> bad_step(const std::string& folder);

/// Returns when no run writes to the folder, or after three minutes.
void wait_until_free(const std::string& folder);

/// Keeps other runs out of a folder as long as it lives, also where its process is killed.
class FolderLock {
 public:
  /// Waits ten seconds for ranks that are about to end, and in a job that Slurm has started again
  /// three minutes, after which a host that is gone has lost its locks. Throws ConfigError if the
  /// folder is still in use then. File systems that have no locks are not locked.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Removes files that killed ranks have not finished.
void remove_unfinished(const std::string& folder);

/// Notes that the run has done so many steps and written all of its results: the last that it does.
void mark_ended(const std::string& folder, std::int64_t step);

/// Forgets that: the run in the folder goes on.
void forget_end(const std::string& folder);

/// The step after which the run in the folder ended with all of its results; 0 if it has not.
std::int64_t ended_after(const std::string& folder);

/// Throws ConfigError unless a run can go on in the folder, or, with a configuration, begin there.
/// A configuration that is missing there is written again from the newest checkpoint.
void check_resumed_folder(const std::string& folder, bool has_config);

/// Why the folder of a run has no model: "runs/x has no model yet: ...". Empty when it has one, or
/// when it is not the folder of a run.
std::string why_no_model(const std::string& folder);

}  // namespace fourfold::train
