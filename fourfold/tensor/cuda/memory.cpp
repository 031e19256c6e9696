// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/cuda/memory.hpp"

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <c10/cuda/CUDACachingAllocator.h>

#include "fourfold/tensor/memory_tally.hpp"

namespace fourfold::tensor {

namespace {

/// The pieces of memory that are counted. libtorch's allocator for GPUs cannot be wrapped, but it
/// reports what it gives and gets back, in the thread that asks. The report comes after the
/// allocation, so that a limit cannot be checked here.
class CountedPieces {
 public:
  void taken(std::uintptr_t address, std::int64_t bytes) {
    std::shared_ptr<MemoryTally> tally = tally_of_thread(c10::kCUDA);
    if (tally == nullptr) return;
    const MemoryClass kind = class_of_thread();
    tally->add(kind, bytes);
    const std::lock_guard lock(mutex_);
    pieces_[address] = {std::move(tally), kind, bytes};
  }

  void given_back(std::uintptr_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = pieces_.find(address);
    if (found == pieces_.end()) return;
    found->second.tally->add(found->second.kind, -found->second.bytes);
    pieces_.erase(found);
  }

  void count_as(std::uintptr_t address, MemoryClass kind) {
    const std::lock_guard lock(mutex_);
    const auto found = pieces_.find(address);
    if (found == pieces_.end()) return;
    Piece& piece = found->second;
    piece.tally->add(piece.kind, -piece.bytes);
    piece.tally->add(kind, piece.bytes);
    piece.kind = kind;
  }

 private:
  struct Piece {
    std::shared_ptr<MemoryTally> tally;
    MemoryClass kind{};
    std::int64_t bytes = 0;
  };

  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, Piece> pieces_;  // by address
};

/// Never destroyed: tensors may be freed after everything else.
CountedPieces& counted() {
  static auto& pieces = *new CountedPieces;
  return pieces;
}

}  // namespace

void count_gpu_memory() {
  static const bool attached = [] {
    using c10::cuda::CUDACachingAllocator::TraceEntry;
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([](const TraceEntry& entry) {
      if (entry.action_ == TraceEntry::ALLOC) {
        counted().taken(entry.addr_, static_cast<std::int64_t>(entry.size_));
      } else if (entry.action_ == TraceEntry::FREE_REQUESTED) {
        counted().given_back(entry.addr_);
      }
    });
    return true;
  }();
  static_cast<void>(attached);
}

void count_gpu_memory_as(const void* data, MemoryClass kind) {
  counted().count_as(reinterpret_cast<std::uintptr_t>(data), kind);
}

}  // namespace fourfold::tensor
