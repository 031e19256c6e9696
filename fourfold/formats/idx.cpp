// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/idx.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>

#include "fourfold/base/text.hpp"
#include "fourfold/formats/gzip.hpp"
#include "fourfold/formats/refuse_file.hpp"

namespace fourfold::formats {

namespace {

constexpr std::uint8_t kUnsignedBytes = 0x08;
constexpr std::size_t kMostDimensions = 3;

/// Reads the next bytes into a span, and returns how many there were.
using ReadBytes = std::function<std::size_t(std::span<std::byte>)>;

void read_header(const ReadBytes& read, std::span<std::byte> bytes,
                 const std::filesystem::path& path) {
  if (read(bytes) != bytes.size()) refuse_file(path, "it ends within its IDX header");
}

/// Reads the header: two zeros, the type of the values, the number of dimensions, and each of them
/// as a 32-bit number with the most significant byte first.
std::vector<std::int64_t> read_shape(const ReadBytes& read, const std::filesystem::path& path) {
  std::array<std::byte, 4> magic{};
  read_header(read, magic, path);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    refuse_file(path, "it is not an IDX file, which begins with two zero bytes");
  }
  if (const auto type = std::to_integer<int>(magic[2]); type != kUnsignedBytes) {
    refuse_file(path, concat("its values are of the IDX type ", type, ", not unsigned bytes (8)"));
  }
  const auto dimensions = std::to_integer<std::size_t>(magic[3]);
  if (dimensions != 1 && dimensions != kMostDimensions) {
    refuse_file(path, concat("it has ", dimensions, " dimensions, not 1 (labels) or 3 (images)"));
  }
  std::array<std::byte, 4 * kMostDimensions> bytes{};
  read_header(read, std::span(bytes).first(4 * dimensions), path);
  std::vector<std::int64_t> shape(dimensions);
  for (std::size_t i = 0; i < 4 * dimensions; ++i) {
    shape[i / 4] = shape[i / 4] << 8 | std::to_integer<std::int64_t>(bytes[i]);
  }
  return shape;
}

std::size_t count_values(const std::vector<std::int64_t>& shape,
                         const std::filesystem::path& path) {
  std::size_t count = 1;
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(dimension), &count)) {
      refuse_file(path, concat("its dimensions ", join(shape, " x "), " are too large"));
    }
  }
  return count;
}

std::span<const std::uint8_t> as_values(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

IdxFile::IdxFile(std::filesystem::path path) : path_(std::move(path)), file_(path_) {
  if (is_gzip(file_.bytes())) {
    unpack();
  } else {
    view();
  }
}

void IdxFile::view() {
  std::span<const std::byte> rest = file_.bytes();
  const ReadBytes read = [&](std::span<std::byte> bytes) {
    const std::size_t count = std::min(bytes.size(), rest.size());
    std::copy_n(rest.begin(), count, bytes.begin());
    rest = rest.subspan(count);
    return count;
  };
  shape_ = read_shape(read, path_);
  const std::size_t count = count_values(shape_, path_);
  if (rest.size() != count) {
    refuse_file(path_,
                concat("its header announces ", join(shape_, " x "), " = ", count, " bytes, but ",
                       rest.size(), " follow", rest.size() < count ? " (cut short)" : ""));
  }
  values_ = as_values(rest);
}

void IdxFile::unpack() {
  GzipReader reader(file_.bytes(), path_);
  shape_ = read_shape([&](std::span<std::byte> bytes) { return reader.read(bytes); }, path_);
  const std::size_t count = count_values(shape_, path_);
  const std::string announced =
      concat("its header announces ", join(shape_, " x "), " = ", count, " bytes, but ");
  const std::size_t packed = file_.bytes().size();
  if (count / kLargestGzipRatio > packed) {
    refuse_file(path_, concat(announced, packed, " bytes of gzip cannot hold so many"));
  }
  // Without initial values the system provides only the memory that is written to.
  unpacked_ = std::make_unique_for_overwrite<std::byte[]>(count);
  const std::span<std::byte> bytes(unpacked_.get(), count);
  if (const std::size_t follow = reader.read(bytes); follow != count) {
    refuse_file(path_, concat(announced, follow, " follow (cut short)"));
  }
  // One byte is enough to know: how many more there are may be beyond all measure.
  std::byte more{};
  if (reader.read({&more, 1}) != 0) refuse_file(path_, concat(announced, "more follow"));
  values_ = as_values(bytes);
}

}  // namespace fourfold::formats
