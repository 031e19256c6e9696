// Temporary memory of operations. It is kept for reuse, so that a training step allocates none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace fourfold::comm {

/// Hands out blocks that are aligned to 64 bytes. Not thread-safe: one engine uses the pool under
/// its lock. Blocks must not outlive the pool.
class ScratchPool {
  struct Free {
    void operator()(std::byte* memory) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;

 public:
  /// A block that returns to its pool when it is destroyed.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();

    std::byte* data() const { return memory_.get(); }

   private:
    friend class ScratchPool;
    Block(ScratchPool* pool, Memory memory, std::int64_t bytes);

    ScratchPool* pool_ = nullptr;
    Memory memory_;
    std::int64_t bytes_ = 0;
  };

  /// A block of at least `bytes` bytes. A block of 0 bytes has no memory.
  Block take(std::int64_t bytes);

  /// The largest sum so far of the bytes handed out and the bytes kept for reuse.
  std::int64_t peak_bytes() const { return peak_bytes_; }

 private:
  std::map<std::int64_t, std::vector<Memory>> kept_;  // by size, a power of two
  std::int64_t bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
};

}  // namespace fourfold::comm
