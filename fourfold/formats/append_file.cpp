// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/append_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "fourfold/formats/write_all.hpp"

namespace fourfold::formats {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_write_error(path_, errno);
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) {
    const int error = errno;
    close(descriptor_);
    throw_write_error(path_, error);
  }
  size_ = status.st_size;
}

AppendFile::~AppendFile() {
  if (waits()) write_all(descriptor_, waiting_.data(), waiting_.size());
  close(descriptor_);
}

void AppendFile::append(std::string_view record) {
  constexpr std::size_t kMostWaiting = std::size_t{16} << 20;
  const bool keeps = waiting_.size() + record.size() <= kMostWaiting;
  if (waits() && keeps) waiting_ += record;
  if (const int error = write(waits() ? waiting_ : record); error != 0) {
    if (!waits()) waiting_ = record;
    throw_write_error(path_, error);
  }
  const bool written = !waits() || keeps;
  waiting_.clear();
  if (!written) append(record);
}

int AppendFile::write(std::string_view bytes) {
  const int error = write_all(descriptor_, bytes.data(), bytes.size());
  if (error == 0) {
    size_ += static_cast<std::int64_t>(bytes.size());
  } else {
    // An incomplete record would make everything after it unreadable. The first error is reported,
    // whether or not the file can be truncated.
    static_cast<void>(!ftruncate(descriptor_, size_));
  }
  return error;
}

void AppendFile::sync() {
  if (fdatasync(descriptor_) != 0) throw_write_error(path_, errno);
}

}  // namespace fourfold::formats
