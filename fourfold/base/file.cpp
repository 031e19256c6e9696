// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/file.hpp"

#include <cerrno>
#include <cstring>
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

void write_text(const std::string& path, const std::string& text) {
  // Beside the file, so that the renaming that puts it in place cannot fail half-way.
  const std::string temporary = concat(path, ".", getpid(), ".part");
  std::ofstream file(temporary, std::ios::binary);
  file << text;
  file.close();
  std::string problem = file ? "" : std::strerror(errno);
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (error) problem = error.message();
  if (problem.empty()) return;
  std::filesystem::remove(temporary, error);
  throw IoError(concat(path, " cannot be written: ", problem));
}

}  // namespace fourfold
