// Writing to a descriptor, for the files of this library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::formats {

/// Writes all bytes, with one system call unless it is interrupted. Returns 0 or the error number.
inline int write_all(int descriptor, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(descriptor, bytes, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return 0;
}

/// The common message for all failures to write a file.
[[noreturn]] inline void throw_write_error(const std::filesystem::path& path, int error) {
  throw IoError(concat(path.string(), " cannot be written: ", std::strerror(error)));
}

}  // namespace fourfold::formats
