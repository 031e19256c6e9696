// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/atomic_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <unistd.h>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/formats/write_all.hpp"

namespace fourfold::formats {

namespace {

/// Headers and vectors are small, so they are collected in a buffer. Larger pieces bypass it.
constexpr std::size_t kBuffer = std::size_t{1} << 18;
/// What goes to the disk at once without the cache.
constexpr std::size_t kWholeBuffer = std::size_t{1} << 22;
/// Of the memory, the place in the file and the length, where the cache is bypassed.
constexpr std::align_val_t kAlignment{4096};

/// Whether a file system has no way past its cache, or not for these pieces.
bool refuses(int error) {
  return error == EINVAL || error == EOPNOTSUPP;
}

}  // namespace

void AtomicFile::Free::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, kAlignment);
}

AtomicFile::AtomicFile(std::filesystem::path path, Cache cache)
    : path_(std::move(path)),
      temporary_(concat(path_.string(), ".", getpid(), ".part")),
      capacity_(cache == Cache::kUse ? kBuffer : kWholeBuffer),
      buffer_(static_cast<std::byte*>(::operator new[](capacity_, kAlignment))) {
  if (open_file(cache)) return;
  if (cache == Cache::kBypass && refuses(errno) && open_file(Cache::kUse)) return;
  throw_write_error(path_, errno);
}

/// A file that a killed process of the same number left there is overwritten.
bool AtomicFile::open_file(Cache cache) {
  bypasses_ = cache == Cache::kBypass;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  descriptor_ = open(temporary_.c_str(), bypasses_ ? kFlags | O_DIRECT : kFlags, 0666);
  return descriptor_ >= 0;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::use_cache() {
  const int flags = fcntl(descriptor_, F_GETFL);
  fcntl(descriptor_, F_SETFL, flags & ~O_DIRECT);
  bypasses_ = false;
}

void AtomicFile::write_through(std::span<const std::byte> bytes) {
  FOURFOLD_CHECK(descriptor_ >= 0, path_, " is closed");
  const off_t begin = bypasses_ ? lseek(descriptor_, 0, SEEK_CUR) : 0;
  const auto* from = reinterpret_cast<const char*>(bytes.data());
  int error = write_all(descriptor_, from, bytes.size());
  if (refuses(error) && bypasses_) {  // this file system asks for another alignment
    use_cache();
    const auto done = static_cast<std::size_t>(lseek(descriptor_, 0, SEEK_CUR) - begin);
    error = write_all(descriptor_, from + done, bytes.size() - done);
  }
  if (error == 0) return;
  close(std::exchange(descriptor_, -1));
  unlink(temporary_.c_str());
  throw_write_error(path_, error);
}

void AtomicFile::flush() {
  write_through({buffer_.get(), std::exchange(buffered_, 0)});
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  checksum_.add(bytes);
  size_ += static_cast<std::int64_t>(bytes.size());
  if (!bypasses_ && bytes.size() >= capacity_) {
    flush();
    return write_through(bytes);
  }
  while (!bytes.empty()) {
    const std::size_t some = std::min(bytes.size(), capacity_ - buffered_);
    std::memcpy(buffer_.get() + buffered_, bytes.data(), some);
    buffered_ += some;
    bytes = bytes.subspan(some);
    if (buffered_ == capacity_) flush();
  }
}

void AtomicFile::commit() {
  if (bypasses_) use_cache();  // the end is no whole buffer
  flush();
  // Without this, a machine that goes down may keep the new name and lose the bytes. Also, some
  // file systems report only now that a write failed.
  if (fsync(descriptor_) != 0) throw_write_error(path_, errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) throw_write_error(path_, errno);
  close(std::exchange(descriptor_, -1));
}

}  // namespace fourfold::formats
