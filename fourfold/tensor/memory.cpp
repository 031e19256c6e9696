// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/memory.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <malloc.h>
#include <mutex>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>

namespace fourfold::tensor {

std::string_view to_string(MemoryClass kind) {
  constexpr std::array<std::string_view, kMemoryClasses> kNames = {
      "parameters", "gradients", "optimizer", "activations", "communication"};
  return kNames[static_cast<std::size_t>(kind)];
}

Bytes MemoryUse::total() const {
  Bytes sum;
  for (const Bytes& bytes : by_class) sum += bytes;
  return sum;
}

/// Outlives its meter: tensors may.
class MemoryTally {
 public:
  void add(MemoryClass kind, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<std::size_t>(kind);
    now_.by_class[index] += Bytes(bytes);
    peaks_.by_class[index] = std::max(peaks_.by_class[index], now_.by_class[index]);
    if (now_.total() > at_peak_.total()) at_peak_ = now_;
  }
  MemoryUse now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  MemoryUse at_peak() const {
    const std::lock_guard lock(mutex_);
    return at_peak_;
  }
  MemoryUse peaks() const {
    const std::lock_guard lock(mutex_);
    return peaks_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    at_peak_ = now_;
    peaks_ = now_;
  }

 private:
  mutable std::mutex mutex_;
  MemoryUse now_;
  MemoryUse at_peak_;
  MemoryUse peaks_;
};

namespace {

thread_local std::shared_ptr<MemoryTally> thread_tally;
thread_local MemoryClass thread_class = MemoryClass::kActivations;

/// An allocation of another allocator that is counted.
struct Counted {
  c10::DataPtr memory;
  std::int64_t bytes;
  MemoryClass kind;
  std::shared_ptr<MemoryTally> tally;
};

void free_counted(void* context) {
  const std::unique_ptr<Counted> counted(static_cast<Counted*>(context));
  counted->tally->add(counted->kind, -counted->bytes);
}

/// Stands before an allocator of libtorch and counts for the thread's meter, if it has one.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  // libtorch 1.13 has `allocate` const, later versions have it not, and `copy_data` besides: so
  // without "override".
  // NOLINTBEGIN(modernize-use-override)
  c10::DataPtr allocate(std::size_t bytes) const { return count(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return count(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    if (to != nullptr) std::memcpy(to, from, bytes);
  }
  // NOLINTEND(modernize-use-override)

 private:
  c10::DataPtr count(std::size_t bytes) const {
    c10::DataPtr memory = inner_->allocate(bytes);
    if (thread_tally == nullptr || bytes == 0) return memory;
    auto counted = std::make_unique<Counted>();
    counted->bytes = static_cast<std::int64_t>(bytes);
    counted->kind = thread_class;
    counted->tally = thread_tally;
    counted->tally->add(counted->kind, counted->bytes);
    void* data = memory.get();
    const c10::Device device = memory.device();
    counted->memory = std::move(memory);
    return {data, counted.release(), &free_counted, device};
  }

  c10::Allocator* inner_;
};

/// libtorch's allocators are global, and may only be changed while there is one thread: so at the
/// start of the process, whether a meter follows or not. (Libraries start before the program, so
/// that libtorch's own are there.)
bool install() {
  static CountingAllocator cpu(c10::GetAllocator(c10::kCPU));
  static CountingAllocator meta(c10::GetAllocator(c10::kMeta));
  c10::SetAllocator(c10::kCPU, &cpu, 100);
  c10::SetAllocator(c10::kMeta, &meta, 100);
  return true;
}
[[maybe_unused]] const bool kInstalled = install();

}  // namespace

MemoryMeter::MemoryMeter() : tally_(std::make_shared<MemoryTally>()) {}

MemoryUse MemoryMeter::now() const {
  return tally_->now();
}
MemoryUse MemoryMeter::at_peak() const {
  return tally_->at_peak();
}
MemoryUse MemoryMeter::peaks() const {
  return tally_->peaks();
}
void MemoryMeter::reset_peak() {
  tally_->reset_peak();
}

MemoryMeter::Counting::Counting(const MemoryMeter& meter)
    : before_(std::exchange(thread_tally, meter.tally_)) {}
MemoryMeter::Counting::~Counting() {
  thread_tally = std::move(before_);
}

MemoryScope::MemoryScope(MemoryClass kind) : before_(std::exchange(thread_class, kind)) {}
MemoryScope::~MemoryScope() {
  thread_class = before_;
}

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace fourfold::tensor
