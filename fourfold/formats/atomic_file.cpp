// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/atomic_file.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/formats/write_all.hpp"

namespace fourfold::formats {

namespace {
/// Headers and vectors are small, so they are collected in a buffer. Larger pieces bypass it.
constexpr std::size_t kBuffer = std::size_t{1} << 18;
}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), temporary_(concat(path_.string(), ".", getpid(), ".part")) {
  buffer_.reserve(kBuffer);
  // A file that a killed process of the same number left there is overwritten.
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_write_error(path_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::write_through(std::span<const std::byte> bytes) {
  FOURFOLD_CHECK(descriptor_ >= 0, path_, " is closed");
  const int error =
      write_all(descriptor_, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (error == 0) return;
  close(std::exchange(descriptor_, -1));
  unlink(temporary_.c_str());
  throw_write_error(path_, error);
}

void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  checksum_.add(bytes);
  size_ += static_cast<std::int64_t>(bytes.size());
  if (buffer_.size() + bytes.size() > kBuffer) flush();
  if (bytes.size() > kBuffer) return write_through(bytes);
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void AtomicFile::commit() {
  flush();
  // Without this, a machine that goes down may keep the new name and lose the bytes. Also, some
  // file systems report only now that a write failed.
  if (fsync(descriptor_) != 0) throw_write_error(path_, errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) throw_write_error(path_, errno);
  close(std::exchange(descriptor_, -1));
}

}  // namespace fourfold::formats
