// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/read_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::formats {

namespace {

[[noreturn]] void throw_read_error(const std::filesystem::path& path, const char* why) {
  throw IoError(concat(path.string(), " cannot be read: ", why));
}

}  // namespace

ReadFile::ReadFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw_read_error(path_, std::strerror(errno));
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    throw_read_error(path_, "it is not a file");
  }
  size_ = status.st_size;
}

ReadFile::~ReadFile() {
  close(descriptor_);
}

void ReadFile::read(std::int64_t begin, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(descriptor_, bytes.data(), bytes.size(), begin);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_read_error(path_, std::strerror(errno));
    if (count == 0) throw_read_error(path_, "it ends too early");
    bytes_read_ += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    begin += count;
  }
}

}  // namespace fourfold::formats
