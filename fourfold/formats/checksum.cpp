// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/checksum.hpp"

#include <array>
#include <cstdio>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fourfold/formats/read_file.hpp"

namespace fourfold::formats {

struct Checksum::State {
  XXH3_state_t xxh3;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh3);
}

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum_of_file(const std::filesystem::path& path) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::vector<std::byte> piece(kPiece);
  const ReadFile file(path);
  Checksum sum;
  for (std::int64_t at = 0; at < file.size();) {
    const auto count = std::min<std::int64_t>(kPiece, file.size() - at);
    const std::span<std::byte> here(piece.data(), static_cast<std::size_t>(count));
    file.read(at, here);
    sum.add(here);
    at += count;
  }
  return sum.value();
}

std::string checksum_text(std::uint64_t checksum) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(checksum));
  return text.data();
}

}  // namespace fourfold::formats
