// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/formats/json_text.hpp"

namespace fourfold::formats {

namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

std::string describe(const TensorEntry& entry) {
  return "tensor " + in_quotes(entry.name);
}

/// Collects the entries of a header as the parser finds them, in the order of the text.
class HeaderSax final : public StrictSax {
 public:
  using StrictSax::StrictSax;

  Header take() { return std::move(header_); }

  bool start_object(std::size_t size) override {
    if (inside_ == Inside::kNothing) {
      inside_ = Inside::kHeader;
    } else if (inside_ == Inside::kHeader && name_ == kMetadataKey) {
      begin_metadata();
      inside_ = Inside::kMetadata;
    } else if (inside_ == Inside::kHeader) {
      entry_ = {};
      entry_.name = name_;
      seen_.clear();
      inside_ = Inside::kEntry;
    } else {
      return StrictSax::start_object(size);
    }
    return true;
  }

  bool key(string_t& key) override {
    if (inside_ == Inside::kHeader) {
      name_ = std::move(key);
      return true;
    }
    field_ = std::move(key);
    if (inside_ == Inside::kEntry) {
      if (field_ != "dtype" && field_ != "shape" && field_ != "data_offsets") {
        refuse(concat(describe(entry_), " has the unknown property ", in_quotes(field_)));
      }
      if (!seen_.insert(field_).second) refuse(concat(place(), " is given twice"));
    }
    return true;
  }

  bool null() override {
    if (inside_ != Inside::kHeader || name_ != kMetadataKey) return StrictSax::null();
    begin_metadata();
    return true;
  }

  bool string(string_t& value) override {
    if (inside_ == Inside::kMetadata) {
      if (!header_.metadata.emplace(field_, std::move(value)).second) {
        refuse(concat(place(), " is given twice"));
      }
    } else if (inside_ == Inside::kEntry && field_ == "dtype") {
      const std::optional<Dtype> dtype = parse_dtype(value);
      if (!dtype) refuse(concat(describe(entry_), " has the unknown dtype ", in_quotes(value)));
      entry_.dtype = *dtype;
    } else {
      return StrictSax::string(value);
    }
    return true;
  }

  bool start_array(std::size_t size) override {
    if (inside_ != Inside::kEntry || field_ == "dtype") return StrictSax::start_array(size);
    list_.clear();
    inside_ = Inside::kList;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (inside_ != Inside::kList) return StrictSax::number_unsigned(value);
    if (value > std::numeric_limits<std::int64_t>::max()) {
      refuse(concat(place(), " has the number ", value, ", which is too large"));
    }
    if (list_.size() == kMaxList) refuse(concat(place(), " has more than 64 numbers"));
    list_.push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool end_array() override {
    inside_ = Inside::kEntry;
    if (field_ == "shape") {
      entry_.shape = list_;
      return true;
    }
    if (list_.size() != 2) refuse(concat(place(), " are ", list_.size(), " numbers, not 2"));
    entry_.begin = list_[0];
    entry_.end = list_[1];
    return true;
  }

  bool end_object() override {
    if (inside_ == Inside::kEntry) {
      if (seen_.size() != 3) {
        refuse(concat(describe(entry_), " lacks its dtype, shape or data_offsets"));
      }
      header_.entries.push_back(std::move(entry_));
    }
    inside_ = Inside::kHeader;  // after the last object nothing else can follow
    return true;
  }

 private:
  enum class Inside { kNothing, kHeader, kMetadata, kEntry, kList };

  static constexpr std::size_t kMaxList = 64;  // more dimensions than any tensor has

  void begin_metadata() {
    if (std::exchange(metadata_seen_, true)) refuse("its __metadata__ is given twice");
  }

  std::string place() const override {
    if (inside_ == Inside::kNothing) return "its header";
    if (inside_ == Inside::kHeader) return "the value of " + in_quotes(name_);
    if (inside_ == Inside::kMetadata) return concat(kMetadataKey, " ", in_quotes(field_));
    return concat("the ", field_, " of ", describe(entry_));
  }

  Header header_;
  Inside inside_ = Inside::kNothing;
  std::string name_;
  std::string field_;
  TensorEntry entry_;           // the entry that the parser is in
  std::set<std::string> seen_;  // its properties so far
  std::vector<std::int64_t> list_;
  bool metadata_seen_ = false;
};

void check_names(const std::vector<TensorEntry>& entries, const std::filesystem::path& path) {
  std::set<std::string_view> names;
  for (const TensorEntry& entry : entries) {
    if (!names.insert(entry.name).second) {
      refuse_file(path, concat(describe(entry), " is given twice"));
    }
  }
}

/// The sorted entries must fill the data exactly.
void check_layout(const std::vector<TensorEntry>& entries, std::int64_t data_bytes,
                  const std::filesystem::path& path) {
  std::int64_t end = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.begin != end) {
      refuse_file(path, concat(describe(entry), " begins at byte ", entry.begin,
                               " of the data, but what is before it ends at byte ", end));
    }
    const std::optional<std::int64_t> size = byte_size(entry.dtype, entry.shape);
    if (!size) {
      refuse_file(path, concat(describe(entry), " of ", entry.dtype, " [", join(entry.shape, ", "),
                               "] has no possible size"));
    }
    if (entry.bytes() != *size) {
      refuse_file(path, concat(describe(entry), " of ", entry.dtype, " [", join(entry.shape, ", "),
                               "] needs ", *size, " bytes, but its offsets are ", entry.begin,
                               " and ", entry.end));
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    refuse_file(path, concat("its tensors take ", end, " bytes, but ", data_bytes,
                             " follow the header", end > data_bytes ? " (cut short)" : ""));
  }
}

}  // namespace

Header parse_header(std::string_view text, std::int64_t data_bytes,
                    const std::filesystem::path& path) {
  HeaderSax sax(path);
  sax.parse(text);
  Header header = sax.take();
  check_names(header.entries, path);
  // Tensors without elements may share their offset with others. They come before those.
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
                   });
  check_layout(header.entries, data_bytes, path);
  return header;
}

std::vector<TensorEntry> lay_out(std::vector<TensorSpec> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return std::tie(b.dtype, a.name) < std::tie(a.dtype, b.name);
  });
  std::vector<TensorEntry> entries;
  std::set<std::string_view> names = {kMetadataKey};
  std::int64_t end = 0;
  for (TensorSpec& tensor : tensors) {
    const std::optional<std::int64_t> size = byte_size(tensor.dtype, tensor.shape);
    const std::int64_t begin = end;
    FOURFOLD_CHECK(size && !__builtin_add_overflow(begin, *size, &end), "tensor ",
                   in_quotes(tensor.name), " of ", tensor.dtype, " [", join(tensor.shape, ", "),
                   "]");
    FOURFOLD_CHECK(names.insert(tensor.name).second, "the name ", in_quotes(tensor.name),
                   " is taken");
    entries.push_back({tensor.name, tensor.dtype, std::move(tensor.shape), begin, end});
  }
  return entries;
}

std::string encode_header(const Header& header) {
  std::vector<std::string> parts;
  if (!header.metadata.empty()) {
    std::vector<std::string> pairs;
    for (const auto& [key, value] : header.metadata) {
      pairs.push_back(json_string(key) + ":" + json_string(value));
    }
    parts.push_back(concat("\"", kMetadataKey, "\":{", join(pairs, ","), "}"));
  }
  for (const TensorEntry& entry : header.entries) {
    parts.push_back(concat(json_string(entry.name), ":{\"dtype\":\"", entry.dtype, "\",\"shape\":[",
                           join(entry.shape, ","), "],\"data_offsets\":[", entry.begin, ",",
                           entry.end, "]}"));
  }
  std::string json = "{" + join(parts, ",") + "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  FOURFOLD_CHECK(static_cast<std::int64_t>(json.size()) <= kMaxHeaderBytes, "a header of ",
                 json.size(), " bytes; split the tensors over several files");

  std::string bytes;
  for (std::int64_t i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(json.size() >> (8 * i));
  }
  return bytes + json;
}

std::int64_t header_length(std::span<const std::byte> begin, std::int64_t file_bytes,
                           const std::filesystem::path& path) {
  if (file_bytes < kLengthBytes) refuse_file(path, concat("it has only ", file_bytes, " bytes"));
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | std::to_integer<std::uint64_t>(begin[i]);
  }
  const auto rest = static_cast<std::uint64_t>(file_bytes - kLengthBytes);
  if (length > kMaxHeaderBytes || length > rest) {
    refuse_file(path, concat("its first 8 bytes announce a header of ", length, " bytes, ", rest,
                             " follow and 100000000 are allowed"));
  }
  return static_cast<std::int64_t>(length);
}

FileHeader read_header(const ReadFile& file) {
  std::array<std::byte, kLengthBytes> begin{};
  if (file.size() >= kLengthBytes) file.read(0, begin);
  const std::int64_t length = header_length(begin, file.size(), file.path());
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const std::int64_t data_begin = kLengthBytes + length;
  Header header = parse_header(text, file.size() - data_begin, file.path());
  return {std::move(header.entries), std::move(header.metadata), data_begin};
}

}  // namespace fourfold::formats
