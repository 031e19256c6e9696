// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/token_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fourfold/base/check.hpp"
#include "fourfold/data/token_kernels.hpp"

namespace fourfold::data {

static_assert(std::endian::native == std::endian::little, "the files are mapped as they are");

namespace {

/// Closes a descriptor at the end of a scope.
struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd;
};

struct Format {
  std::int64_t tokens = 0;
  std::int64_t width = 0;  // bytes a token
};

/// The format that a header describes. Throws ConfigError that names `path`.
Format read_header(const std::string& path, const std::array<std::int32_t, 3>& header) {
  const auto [magic, version, count] = header;
  if (magic != kMagic16 && magic != kMagic32) {
    throw ConfigError(concat(path, " is not a token file: it begins with ", magic, ", not with ",
                             kMagic16, " or ", kMagic32,
                             " (tokens without a header, as nanoGPT writes them, need one)"));
  }
  const std::int32_t expected = magic == kMagic16 ? 1 : 7;
  if (version != expected) {
    throw ConfigError(concat(path, " is a token file of version ", version, "; version ", expected,
                             " is understood"));
  }
  if (count < 1) throw ConfigError(concat(path, " says that it holds ", count, " tokens"));
  return {count, magic == kMagic16 ? 2 : 4};
}

std::vector<std::string> token_files(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {path};
  std::vector<std::string> files;
  std::filesystem::directory_iterator entries(path, error);
  if (error) throw ConfigError(concat(path, " cannot be read: ", error.message()));
  for (const auto& entry : entries) {
    if (entry.path().extension() == ".bin") files.push_back(entry.path().string());
  }
  if (files.empty()) throw ConfigError(concat("there is no file *.bin in the folder ", path));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

/// One mapped file.
class Tokens::File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {
    const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.fd < 0) throw ConfigError(concat(path_, " cannot be read: ", std::strerror(errno)));
    struct stat status {};
    if (::fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      throw ConfigError(concat(path_, " is not a file"));
    }
    bytes_ = status.st_size;
    check(file.fd);
    map_ = ::mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ, MAP_SHARED, file.fd, 0);
    if (map_ == MAP_FAILED) {
      throw IoError(concat(path_, " cannot be mapped into memory: ", std::strerror(errno)));
    }
  }
  ~File() { ::munmap(map_, static_cast<std::size_t>(bytes_)); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return format_.tokens; }

  /// Calls `use(pointer to token number first)` with the file's own type.
  template <class Use>
  auto with(std::int64_t first, const Use& use) const {
    const char* data = static_cast<const char*>(map_) + kTokenHeaderBytes + first * format_.width;
    return format_.width == 2 ? use(reinterpret_cast<const std::uint16_t*>(data))
                              : use(reinterpret_cast<const std::uint32_t*>(data));
  }

 private:
  void check(int fd) {
    if (bytes_ < kTokenHeaderBytes) {
      throw ConfigError(concat(path_, " is not a token file: it has ", bytes_,
                               " bytes, its header ", "alone would have ", kTokenHeaderBytes));
    }
    std::array<std::int32_t, 3> header{};
    if (::pread(fd, header.data(), sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
      throw IoError(concat(path_, " cannot be read: ", std::strerror(errno)));
    }
    format_ = read_header(path_, header);
    const std::int64_t expected = kTokenHeaderBytes + format_.tokens * format_.width;
    if (bytes_ != expected) {
      throw ConfigError(
          concat(path_, bytes_ < expected ? " is cut off: " : " is too long: ", format_.tokens,
                 " tokens take ", expected, " bytes, it has ", bytes_));
    }
  }

  std::string path_;
  std::int64_t bytes_ = 0;
  Format format_;
  void* map_ = nullptr;
};

Tokens::Tokens(const std::string& path) {
  starts_.push_back(0);
  for (const std::string& name : token_files(path)) {
    files_.push_back(std::make_shared<const File>(name));
    starts_.push_back(starts_.back() + files_.back()->size());
  }
  end_ = starts_.back();
}

template <class Use>
void Tokens::for_each_part(std::int64_t begin, std::int64_t count, const Use& use) const {
  FOURFOLD_CHECK(begin >= 0 && count >= 0 && count <= size() && begin <= size() - count, "tokens ",
                 begin, " to ", begin, " + ", count, " of ", size());
  std::int64_t at = begin_ + begin;
  const std::int64_t end = at + count;
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), at);
  for (auto file = static_cast<std::size_t>(after - starts_.begin()) - 1; at < end; ++file) {
    const std::int64_t part = std::min(end, starts_[file + 1]) - at;
    use(*files_[file], at - starts_[file], part);
    at += part;
  }
}

void Tokens::read(std::int64_t begin, std::int64_t count, std::int64_t* out) const {
  for_each_part(begin, count, [&](const File& file, std::int64_t first, std::int64_t part) {
    file.with(first, [&](const auto* tokens) { widen(tokens, part, out); });
    out += part;
  });
}

Tokens Tokens::slice(std::int64_t begin, std::int64_t end) const {
  FOURFOLD_CHECK(begin >= 0 && begin <= end && end <= size(), "slice from ", begin, " to ", end,
                 " of ", size());
  Tokens part = *this;
  part.begin_ = begin_ + begin;
  part.end_ = begin_ + end;
  return part;
}

void Tokens::check_below(std::int64_t vocabulary) const {
  // The steps stay in the cache, so that a large token in a step is found again at once.
  constexpr std::int64_t kStep = 1 << 16;
  for_each_part(0, size(), [&](const File& file, std::int64_t first, std::int64_t part) {
    for (std::int64_t at = first; at < first + part; at += kStep) {
      const std::int64_t count = std::min(kStep, first + part - at);
      file.with(at, [&](const auto* tokens) {
        if (largest(tokens, count) < vocabulary) return;
        const auto* found =
            std::find_if(tokens, tokens + count, [&](auto token) { return token >= vocabulary; });
        throw ConfigError(concat(file.path(), " does not fit the vocabulary of ", vocabulary,
                                 ": its token number ", at + (found - tokens), " is ", *found));
      });
    }
  });
}

std::int64_t Tokens::check_some_below(std::int64_t vocabulary, std::int64_t most) const {
  constexpr std::int64_t kPiece = 1 << 15;  // large enough that a disk reads it at full speed
  const std::int64_t pieces = most / kPiece;
  if (size() <= most || pieces < 2) {
    const std::int64_t count = std::min(size(), most);
    slice(0, count).check_below(vocabulary);
    return count;
  }
  for (std::int64_t i = 0; i < pieces; ++i) {
    // The last piece ends with the last token.
    const std::int64_t begin = (size() - kPiece) * i / (pieces - 1);
    slice(begin, begin + kPiece).check_below(vocabulary);
  }
  return pieces * kPiece;
}

}  // namespace fourfold::data
