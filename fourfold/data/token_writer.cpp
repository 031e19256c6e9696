// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/token_writer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <unistd.h>
#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/data/token_file.hpp"

namespace fourfold::data {

namespace {

bool fits_in_16_bits(std::int64_t vocabulary) {
  return vocabulary <= std::int64_t{std::numeric_limits<std::uint16_t>::max()} + 1;
}

/// Numbers have leading zeros, so that the order of names is the order of shards.
std::string shard_name(int number) {
  const std::string digits = std::to_string(number);
  return std::string(6 - std::min<std::size_t>(6, digits.size()), '0') + digits + ".bin";
}

}  // namespace

TokenWriter::TokenWriter(std::string folder, std::int64_t vocabulary, std::int64_t shard_tokens)
    : folder_(std::move(folder)),
      vocabulary_(vocabulary),
      shard_tokens_(shard_tokens),
      scratch_(folder_) {
  FOURFOLD_CHECK(shard_tokens > 0 && shard_tokens <= kShardTokens, shard_tokens);
}

void TokenWriter::append(std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    FOURFOLD_CHECK(token >= 0 && token < vocabulary_, "token ", token, " of ", vocabulary_);
  }
  while (!tokens.empty()) {
    if (shard_ == nullptr) open_shard();
    const std::int64_t room = shard_tokens_ - in_shard_;
    const auto part = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(room)));
    if (fits_in_16_bits(vocabulary_)) {
      write_tokens<std::uint16_t>(part);
    } else {
      write_tokens<std::uint32_t>(part);
    }
    in_shard_ += static_cast<std::int64_t>(part.size());
    tokens_ += static_cast<std::int64_t>(part.size());
    tokens = tokens.subspan(part.size());
    if (in_shard_ == shard_tokens_) close_shard();
  }
}

template <class Token>
void TokenWriter::write_tokens(std::span<const std::int32_t> tokens) {
  std::vector<Token> narrow(tokens.size());
  std::transform(tokens.begin(), tokens.end(), narrow.begin(),
                 [](std::int32_t token) { return static_cast<Token>(token); });
  write(narrow.data(), narrow.size() * sizeof(Token));
}

void TokenWriter::write(const void* data, std::size_t bytes) {
  if (std::fwrite(data, 1, bytes, shard_.get()) != bytes) fail();
}

void TokenWriter::open_shard() {
  shard_path_ = scratch_.path() + "/" + shard_name(shards_++);
  shard_.reset(std::fopen(shard_path_.c_str(), "wbe"));
  if (shard_ == nullptr) fail();
  in_shard_ = 0;
  const std::array<char, kTokenHeaderBytes> room{};
  write(room.data(), room.size());
}

void TokenWriter::close_shard() {
  const bool narrow = fits_in_16_bits(vocabulary_);
  const std::array<std::int32_t, 3> header = {narrow ? kMagic16 : kMagic32, narrow ? 1 : 7,
                                              static_cast<std::int32_t>(in_shard_)};
  if (std::fseek(shard_.get(), 0, SEEK_SET) != 0) fail();
  write(header.data(), sizeof header);
  // The data is on the disk before the folder gets its name, so that after a power failure the
  // folder is complete or missing.
  if (std::fflush(shard_.get()) != 0 || ::fsync(::fileno(shard_.get())) != 0) fail();
  if (std::fclose(shard_.release()) != 0) fail();
}

void TokenWriter::commit() {
  FOURFOLD_CHECK(tokens_ > 0, "no tokens were written to ", folder_);
  if (shard_ != nullptr) close_shard();
  if (!scratch_.commit()) throw ConfigError(concat(folder_, " exists already"));
}

void TokenWriter::fail() const {
  throw IoError(concat(shard_path_, " cannot be written: ", std::strerror(errno)));
}

}  // namespace fourfold::data
