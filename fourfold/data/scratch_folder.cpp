// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/scratch_folder.hpp"

#include <filesystem>
#include <unistd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::data {

ScratchFolder::ScratchFolder(std::string place) : place_(std::move(place)) {
  // Process numbers are reused, on other hosts and after a crash, so the first free name is taken.
  for (int attempt = 0; path_.empty(); ++attempt) {
    const std::string path = concat(place_, ".part-", ::getpid(), "-", attempt);
    std::error_code error;
    if (std::filesystem::create_directory(path, error)) path_ = path;
    if (error) throw IoError(concat(path, " cannot be created: ", error.message()));
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;  // nothing can be done about it here
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool ScratchFolder::commit() {
  std::error_code error;
  std::filesystem::rename(path_, place_, error);
  if (error == std::errc::directory_not_empty || error == std::errc::file_exists ||
      error == std::errc::not_a_directory) {
    return false;
  }
  if (error) throw IoError(concat(place_, " cannot be written: ", error.message()));
  path_.clear();
  return true;
}

}  // namespace fourfold::data
