// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold {

void check_writable(const std::string& option, const std::string& path) {
  std::error_code ignored;
  const bool existed = std::filesystem::exists(path, ignored);
  const bool folder = std::filesystem::is_directory(path, ignored);
  errno = folder ? EISDIR : 0;
  if (folder || !std::ofstream(path, std::ios::app)) {
    throw ConfigError(concat(option, " ", path, " cannot be written: ", std::strerror(errno)));
  }
  if (!existed) std::filesystem::remove(path, ignored);
}

int sync_to_disk(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  return error == EINVAL || error == ENOTSUP ? 0 : error;
}

void write_text(const std::string& path, const std::string& text) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  // If the path is a device or a pipe, the text is written to it directly.
  const bool replace = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  // The new file is made next to the old one, so that the final rename cannot fail half-way.
  const std::string target = replace ? concat(path, ".", getpid(), ".part") : path;
  std::ofstream file(target, std::ios::binary);
  file << text;
  file.close();
  std::string problem = file ? "" : std::strerror(errno);
  // A machine that goes down might otherwise keep the new name and lose the text.
  const int unsynced = file && replace ? sync_to_disk(target) : 0;
  if (unsynced != 0) problem = std::strerror(unsynced);
  error.clear();
  if (problem.empty() && replace) std::filesystem::rename(target, path, error);
  if (error) problem = error.message();
  if (problem.empty() && replace) {
    sync_to_disk(std::filesystem::absolute(path).parent_path().string());
  }
  if (problem.empty()) return;
  if (replace) std::filesystem::remove(target, error);
  throw IoError(concat(path, " cannot be written: ", problem));
}

}  // namespace fourfold
