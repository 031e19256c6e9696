// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/gzip.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <zlib.h>

#include "fourfold/base/text.hpp"
#include "fourfold/formats/refuse_file.hpp"

namespace fourfold::formats {

namespace {

/// zlib counts in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
/// The largest window, and gzip's header and trailer around the data.
constexpr int kGzipOnly = 15 + 16;

z_stream* make_stream() {
  auto stream = std::make_unique<z_stream>();
  if (inflateInit2(stream.get(), kGzipOnly) != Z_OK) throw std::bad_alloc();
  return stream.release();
}

void free_stream(z_stream* stream) {
  inflateEnd(stream);
  delete stream;
}

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

GzipReader::GzipReader(std::span<const std::byte> packed, std::filesystem::path path)
    : path_(std::move(path)), rest_(packed), stream_(make_stream(), free_stream) {}

std::size_t GzipReader::read(std::span<std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size() && !ended_) done += unpack(bytes.subspan(done));
  return done;
}

std::size_t GzipReader::unpack(std::span<std::byte> bytes) {
  const auto offered = static_cast<uInt>(std::min(rest_.size(), kMostAtOnce));
  const auto wanted = static_cast<uInt>(std::min(bytes.size(), kMostAtOnce));
  // zlib's interface lacks the const; it does not write to its input.
  stream_->next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest_.data()));
  stream_->avail_in = offered;
  stream_->next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream_->avail_out = wanted;
  const int result = inflate(stream_.get(), Z_NO_FLUSH);
  rest_ = rest_.subspan(offered - stream_->avail_in);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  // There was room for more, so the input must have ended.
  if (result == Z_BUF_ERROR) refuse_file(path_, "its gzip data is cut short");
  if (result == Z_STREAM_END) {
    begin_next_member();
  } else if (result != Z_OK) {
    const char* why = stream_->msg != nullptr ? stream_->msg : "it needs a dictionary";
    refuse_file(path_, concat("its gzip data is damaged: ", why));
  }
  return wanted - stream_->avail_out;
}

void GzipReader::begin_next_member() {
  ended_ = rest_.empty();
  if (ended_) return;
  // Several gzip files one after the other are a gzip file, too. Some tools write them.
  if (!is_gzip(rest_)) {
    refuse_file(path_, concat("after its gzip data ", rest_.size(), " other bytes follow"));
  }
  inflateReset(stream_.get());
}

}  // namespace fourfold::formats
