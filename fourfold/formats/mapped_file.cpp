// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/mapped_file.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::formats {

namespace {

struct Descriptor {
  explicit Descriptor(int number_) : number(number_) {}
  ~Descriptor() { close(number); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  const int number;
};

int open_or_throw(const std::filesystem::path& path) {
  // If the path is a pipe, this must not wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    throw ConfigError(
        concat(path.string(), " cannot be read: ", std::strerror(errno), "; check the path"));
  }
  return descriptor;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(open_or_throw(path));
  struct stat status {};
  if (fstat(file.number, &status) != 0) {
    throw IoError(concat(path.string(), " cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    throw ConfigError(concat(path.string(), " is not a file; check the path"));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // nothing to map, and the system would refuse to
  void* const begin = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (begin == MAP_FAILED) {
    throw IoError(concat(path.string(), " cannot be mapped: ", std::strerror(errno)));
  }
  bytes_ = {static_cast<const std::byte*>(begin), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace fourfold::formats
