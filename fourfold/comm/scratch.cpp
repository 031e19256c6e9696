// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/scratch.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace fourfold::comm {

namespace {
constexpr std::align_val_t kAlignment{64};
constexpr std::int64_t kSmallest = 4096;
}  // namespace

void ScratchPool::Free::operator()(std::byte* memory) const {
  ::operator delete(memory, kAlignment);
}

ScratchPool::Block::Block(ScratchPool* pool, Memory memory, std::int64_t bytes)
    : pool_(pool), memory_(std::move(memory)), bytes_(bytes) {}

ScratchPool::Block::Block(Block&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)),
      memory_(std::move(other.memory_)),
      bytes_(std::exchange(other.bytes_, 0)) {}

ScratchPool::Block& ScratchPool::Block::operator=(Block&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

ScratchPool::Block::~Block() {
  if (memory_) pool_->kept_[bytes_].push_back(std::move(memory_));
}

ScratchPool::Block ScratchPool::take(std::int64_t bytes) {
  if (bytes == 0) return {};
  const auto size = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, kSmallest))));
  auto& free = kept_[size];
  if (!free.empty()) {
    Memory memory = std::move(free.back());
    free.pop_back();
    return Block(this, std::move(memory), size);
  }
  bytes_ += size;
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  return Block(
      this,
      Memory(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(size), kAlignment))),
      size);
}

}  // namespace fourfold::comm
