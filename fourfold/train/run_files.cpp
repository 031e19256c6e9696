// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run_files.hpp"

#include <filesystem>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/comm/flight_log.hpp"
#include "fourfold/config/write.hpp"

namespace fourfold::train {

namespace {

/// Of ranks that failed, for `fourfold autopsy` after the run has gone on.
void keep_earlier_logs(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(flight_folder(folder), error)) return;
  std::filesystem::remove_all(earlier_flight_folder(folder), error);
  std::filesystem::rename(flight_folder(folder), earlier_flight_folder(folder), error);
}

}  // namespace

void RunFiles::lock(const std::string& folder) {
  lock_.emplace(folder);
}

void RunFiles::begin(const std::string& folder, const config::Config& config, std::int64_t done) {
  const std::string path = folder + "/config.toml";
  const std::string text = config::to_toml(config);
  // The file that makes it the folder of a run comes first: whoever starts a run again that was
  // killed at its beginning looks for it.
  if (!is_run_folder(folder)) write_text(path, text);
  if (!lock_) lock_.emplace(folder);
  remove_unfinished(folder);
  mark_begun(folder, done);
  keep_earlier_logs(folder);
  write_text(path, text);
}

std::string RunFiles::keep_log(comm::World& world, const std::string& folder) {
  log_folder_ = flight_folder(folder);
  log_file_ = log_folder_ + "/" + comm::flight_file(world.rank());
  try {
    log_.emplace(world, log_file_);
  } catch (const IoError& error) {
    return concat(error.what(), "; this run leaves no logs for fourfold autopsy");
  }
  return "";
}

void RunFiles::begin_step(std::int64_t number) {
  if (log_) log_->begin_step(number);
}

void RunFiles::drop_log() {
  if (!log_) return;
  log_.reset();
  std::error_code error;
  std::filesystem::remove(log_file_, error);
  std::filesystem::remove(log_folder_, error);  // if it is empty
}

}  // namespace fourfold::train
