// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/tensorboard.hpp"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <span>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "fourfold/base/text.hpp"
#include "fourfold/formats/crc32c.hpp"
#include "fourfold/formats/read_file.hpp"
#include "fourfold/formats/write_all.hpp"

namespace fourfold::formats {

namespace {

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// A protocol buffer, field by field. Each field begins with its number and the way it is stored.
class Message {
 public:
  void add_varint(int field, std::int64_t value) {
    append_tag(field, 0);
    append_varint(static_cast<std::uint64_t>(value));
  }
  void add_double(int field, double value) {
    append_tag(field, 1);
    bytes_ += little_endian(std::bit_cast<std::uint64_t>(value));
  }
  void add_bytes(int field, std::string_view value) {
    append_tag(field, 2);
    append_varint(value.size());
    bytes_ += value;
  }
  void add_float(int field, float value) {
    append_tag(field, 5);
    bytes_ += little_endian(std::bit_cast<std::uint32_t>(value));
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void append_tag(int field, int storage) {
    append_varint(static_cast<std::uint64_t>(field << 3 | storage));
  }
  /// Each byte has seven bits, the lowest first. The eighth bit says that more bytes follow.
  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

std::string record(std::string_view event) {
  const std::string length = little_endian(std::uint64_t{event.size()});
  return concat(length, little_endian(masked_crc32c(length)), event,
                little_endian(masked_crc32c(event)));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

/// Makes an event file that no other process has.
std::filesystem::path make_file(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_write_error(folder, error.value());
  const std::string name = concat("events.out.tfevents.", static_cast<std::int64_t>(unix_time()),
                                  ".", host_name(), ".", getpid(), ".");
  for (int number = 0;; ++number) {
    std::filesystem::path path = folder / concat(name, number);
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      close(descriptor);
      return path;
    }
    if (errno != EEXIST) throw_write_error(path, errno);
  }
}

/// Reads the fields of a protocol buffer one after the other.
class MessageReader {
 public:
  explicit MessageReader(std::string_view bytes) : bytes_(bytes) {}

  /// The whole number in field 2, the step of an event; 0 if there is none or the bytes are
  /// damaged.
  std::int64_t step() {
    while (!bytes_.empty()) {
      const std::optional<std::uint64_t> tag = varint();
      if (!tag) return 0;
      const std::optional<std::uint64_t> value = field(*tag & 7);
      if (!value) return 0;
      if (*tag == (2 << 3 | 0)) return static_cast<std::int64_t>(*value);
    }
    return 0;
  }

 private:
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  /// A number, or 0 for anything else; nothing if the bytes end too early.
  std::optional<std::uint64_t> field(std::uint64_t storage) {
    if (storage == 0) return varint();
    std::optional<std::uint64_t> size;
    if (storage == 1) size = 8;
    if (storage == 2) size = varint();
    if (storage == 5) size = 4;
    if (!size || *size > bytes_.size()) return std::nullopt;
    bytes_.remove_prefix(*size);
    return 0;
  }

  std::string_view bytes_;
};

/// The bytes of the records up to the first one of a later step.
std::size_t kept_bytes(std::string_view file, std::int64_t last_step) {
  constexpr std::size_t kHead = 12;  // the length and its checksum
  constexpr std::size_t kTail = 4;
  std::size_t kept = 0;
  while (file.size() - kept >= kHead + kTail) {
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) {
      length = length << 8 | static_cast<unsigned char>(file[kept + i]);
    }
    if (length > file.size() - kept - kHead - kTail) break;
    const std::string_view event = file.substr(kept + kHead, length);
    if (file.substr(kept, kHead + length + kTail) != record(event)) break;
    if (MessageReader(event).step() > last_step) break;
    kept += kHead + length + kTail;
  }
  return kept;
}

}  // namespace

void cut_events(const std::filesystem::path& folder, std::int64_t last_step) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    files.push_back(it->path());
  }
  for (const std::filesystem::path& path : files) {
    if (!path.filename().string().starts_with("events.out.tfevents.")) continue;
    const ReadFile file(path);
    std::string bytes(static_cast<std::size_t>(file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    const std::size_t kept = kept_bytes(bytes, last_step);
    if (kept == bytes.size()) continue;
    std::filesystem::resize_file(path, kept, error);
    if (error) throw_write_error(path, error.value());
  }
}

std::string version_record(double wall_time) {
  Message event;
  event.add_double(1, wall_time);
  event.add_bytes(3, "brain.Event:2");
  return record(event.bytes());
}

std::string scalar_record(std::string_view tag, std::int64_t step, float value, double wall_time) {
  Message point;
  point.add_bytes(1, tag);
  point.add_float(2, value);
  Message summary;
  summary.add_bytes(1, point.bytes());
  Message event;
  event.add_double(1, wall_time);
  event.add_varint(2, step);
  event.add_bytes(5, summary.bytes());
  return record(event.bytes());
}

double unix_time() {
  const std::chrono::duration<double> since = std::chrono::system_clock::now().time_since_epoch();
  return since.count();
}

EventWriter::EventWriter(const std::filesystem::path& folder) : file_(make_file(folder)) {
  file_.append(version_record(unix_time()));
}

void EventWriter::scalars(std::int64_t step, std::span<const Scalar> values, double wall_time) {
  std::string records;
  for (const Scalar& one : values) {
    records += scalar_record(one.tag, step, static_cast<float>(one.value), wall_time);
  }
  file_.append(records);
}

void EventWriter::scalar(std::string_view tag, std::int64_t step, double value, double wall_time) {
  file_.append(scalar_record(tag, step, static_cast<float>(value), wall_time));
}

}  // namespace fourfold::formats
