// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run_folder.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/folder.hpp"
#include "fourfold/config/read.hpp"
#include "fourfold/train/run.hpp"

namespace fourfold::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kEndedFile = "ended";
constexpr const char* kBegunFile = "begun";
constexpr const char* kBadStepFile = "bad-step";

std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// For locks of ranks that are gone or about to be.
constexpr Seconds kPatience{180};

/// False if somebody else has the lock for so long. File systems without locks give it at once.
bool get_lock(int descriptor, Seconds patience) {
  for (const Seconds begin = now(); flock(descriptor, LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;
    if (now() - begin > patience) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

/// Whether a killed rank has left this file, which has another name when it is complete.
bool is_unfinished(const fs::path& path) {
  return path.extension() == ".part";
}

/// Whether no run has begun in the folder, but for what one did that was killed at once.
bool is_as_new(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!is_unfinished(it->path())) return false;
  }
  return !error;
}

/// Every checkpoint has the configuration of its run.
void recover_config(const std::string& folder) {
  for (const checkpoint::Listed& one : checkpoint::list(checkpoint::checkpoints_of(folder))) {
    try {
      const formats::Manifest manifest = formats::read_manifest(one.path);
      return write_text(folder + "/config.toml", manifest.config);
    } catch (const Error&) {  // it is damaged: the one before
    }
  }
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &parts);
  return text.data();
}

/// The existing folder in which `path` would be made.
fs::path nearest_parent(const fs::path& path) {
  fs::path parent = fs::absolute(path).lexically_normal();
  std::error_code error;
  while (!fs::exists(parent, error) && parent.has_relative_path()) parent = parent.parent_path();
  return parent;
}

/// " of 900", from the run's configuration. Empty when that cannot be read.
std::string of_all_steps(const std::string& folder) {
  try {
    const config::Source source{.path = folder + "/config.toml", .needs_data = false};
    return concat(" of ", config::read(source).train.steps);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::int64_t last_step(const std::string& folder) {
  // The last line may be incomplete.
  std::ifstream file(folder + "/metrics.jsonl");
  std::int64_t last = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto step = json.is_object() ? json.find("step") : json.end();
    if (step != json.end() && step->is_number()) last = step->get<std::int64_t>();
  }
  return last;
}

void mark_ended(const std::string& folder, std::int64_t step) {
  write_text(folder + "/" + kEndedFile, concat(step, "\n"));
}

void forget_end(const std::string& folder) {
  std::error_code error;
  fs::remove(fs::path(folder) / kEndedFile, error);
}

std::int64_t ended_after(const std::string& folder) {
  return number_in(folder + "/" + kEndedFile).value_or(0);
}

void mark_begun(const std::string& folder, std::int64_t step) {
  forget_begun(folder);
  write_text(folder + "/" + kBegunFile, concat(step, "\n"));
}

void forget_begun(const std::string& folder) {
  std::error_code error;
  fs::remove(fs::path(folder) / kBegunFile, error);
  fs::remove(fs::path(folder) / kBadStepFile, error);
}

void mark_bad_step(const std::string& folder, std::int64_t step) {
  // At once, without waiting for the disk: other ranks are about to end this one.
  std::ofstream(folder + "/" + kBadStepFile) << step << "\n";
}

std::optional<std::int64_t> bad_step(const std::string& folder) {
  return number_in(folder + "/" + kBadStepFile);
}

bool has_moved(const std::string& folder) {
  const std::optional<std::int64_t> begun = number_in(folder + "/" + kBegunFile);
  return begun && last_step(folder) > *begun;
}

void remove_unfinished(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> unfinished;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_unfinished(it->path())) unfinished.push_back(it->path());
  }
  for (const fs::path& path : unfinished) fs::remove(path, error);
}

void wait_until_free(const std::string& folder) {
  const int descriptor = open((folder + "/log.txt").c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  get_lock(descriptor, kPatience);
  close(descriptor);
}

FolderLock::FolderLock(const std::string& folder) {
  const std::string path = folder + "/log.txt";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw IoError(concat(path, " cannot be written: ", std::strerror(errno)));
  constexpr Seconds kUsual{10};
  if (get_lock(descriptor_, std::getenv("SLURM_RESTART_COUNT") != nullptr ? kPatience : kUsual)) {
    return;
  }
  close(descriptor_);
  throw ConfigError(
      concat("another run is writing to ", folder, ": wait until it has ended, or end it"));
}

FolderLock::~FolderLock() {
  close(descriptor_);
}

std::string flight_folder(const std::string& folder) {
  return folder + "/flight";
}

std::string earlier_flight_folder(const std::string& folder) {
  return folder + "/flight-before";
}

bool is_run_folder(const std::string& folder) {
  std::error_code error;
  return fs::exists(fs::path(folder) / "config.toml", error);
}

bool has_checkpoint(const std::string& folder) {
  return !checkpoint::list(checkpoint::checkpoints_of(folder)).empty();
}

void check_resumed_folder(const std::string& folder, bool has_config) {
  if (!is_run_folder(folder)) recover_config(folder);
  if (!is_run_folder(folder)) {
    if (has_config) return check_run_folder(folder);
    throw ConfigError(concat("--resume ", folder, " is not the folder of a run: it has no ",
                             "config.toml; with a CONFIG.toml a new run begins there"));
  }
  if (ended_after(folder) > 0 && !has_checkpoint(folder)) {
    throw ConfigError(concat("the run in ", folder, " has ended and has no checkpoint to go on ",
                             "from; --init-from ", folder, " begins a new run with its weights"));
  }
}

std::string why_no_model(const std::string& folder) {
  std::error_code error;
  const auto has = [&](const char* name) { return fs::exists(fs::path(folder) / name, error); };
  const bool weights = has("model.safetensors") || has("model.safetensors.index.json");
  if (!has("config.toml") || (weights && has("config.json"))) return "";
  const std::int64_t step = last_step(folder);
  return concat(
      folder, " has no model yet: the run ",
      step == 0 ? "has not done a step" : concat("is at step ", step, of_all_steps(folder)),
      ", or ended there; the model is written at the end of a run, or by fourfold checkpoint "
      "export");
}

void check_run_folder(const std::string& out) {
  const fs::path path = out.empty() ? "runs" : out;
  std::error_code error;
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path, error)) {
      throw ConfigError(concat("--out ", path.string(), " is a file; name a new folder"));
    }
    if (!out.empty() && !is_as_new(path)) {
      throw ConfigError(concat("--out ", out, " is not empty; name a new folder"));
    }
  }
  const fs::path parent = nearest_parent(path);
  if (!fs::is_directory(parent, error) || access(parent.c_str(), W_OK | X_OK) != 0) {
    throw ConfigError(concat("no run folder can be made in ", parent.string(),
                             ": it is not a folder that can be written; name another with --out"));
  }
}

std::string new_run_folder(const std::string& name) {
  return concat("runs/", name, "-", time_stamp());
}

std::string make_run_folder(const std::string& out, const std::string& name) {
  check_run_folder(out);
  const std::string path = out.empty() ? new_run_folder(name) : out;
  for (int number = 1;; ++number) {
    const std::string attempt = number == 1 ? path : concat(path, "-", number);
    std::error_code error;
    const bool made = fs::create_directories(attempt, error);
    if (error) {
      throw ConfigError(concat("the run folder ", attempt, " cannot be made: ", error.message(),
                               "; name another with --out"));
    }
    // If the folder exists, it belongs to another run that started in the same second.
    if (made || !out.empty()) return attempt;
  }
}

}  // namespace fourfold::train
