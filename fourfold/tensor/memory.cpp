// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/memory.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <malloc.h>
#include <new>
#include <utility>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Device.h>

#include "fourfold/base/error.hpp"
#include "fourfold/tensor/memory_tally.hpp"

namespace fourfold::tensor {

std::string_view to_string(MemoryClass kind) {
  constexpr std::array<std::string_view, kMemoryClasses> kNames = {
      "parameters", "gradients", "optimizer", "activations", "communication", "workspace"};
  return kNames[static_cast<std::size_t>(kind)];
}

Bytes MemoryUse::total() const {
  Bytes sum;
  for (std::size_t i = 0; i < kPlannedClasses; ++i) sum += by_class[i];
  return sum;
}

namespace {
constexpr Bytes kNoLimit{std::numeric_limits<std::int64_t>::max()};
}

MemoryTally::MemoryTally(c10::DeviceType device) : device_(device), limit_(kNoLimit) {}

void MemoryTally::add(MemoryClass kind, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(kind);
  now_.by_class[index] += Bytes(bytes);
  peaks_.by_class[index] = std::max(peaks_.by_class[index], now_.by_class[index]);
  if (now_.total() > at_peak_.total()) at_peak_ = now_;
}

void MemoryTally::check_limit(MemoryClass kind, std::int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  if (kind == MemoryClass::kWorkspace || now_.total() + Bytes(bytes) <= limit_) return;
  throw ConfigError(describe_({kind, Bytes(bytes), now_, limit_}));
}

void MemoryTally::set_limit(Bytes limit, std::function<std::string(const MemoryExcess&)> describe) {
  const std::lock_guard lock(mutex_);
  limit_ = limit;
  describe_ = std::move(describe);
}

MemoryUse MemoryTally::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

MemoryUse MemoryTally::at_peak() const {
  const std::lock_guard lock(mutex_);
  return at_peak_;
}

MemoryUse MemoryTally::peaks() const {
  const std::lock_guard lock(mutex_);
  return peaks_;
}

void MemoryTally::reset_peak() {
  const std::lock_guard lock(mutex_);
  at_peak_ = now_;
  peaks_ = now_;
}

namespace {

thread_local std::shared_ptr<MemoryTally> thread_tally;
thread_local MemoryClass thread_class = MemoryClass::kActivations;

}  // namespace

std::shared_ptr<MemoryTally> tally_of_thread(c10::DeviceType device) {
  return thread_tally != nullptr && thread_tally->device() == device ? thread_tally : nullptr;
}

MemoryClass class_of_thread() {
  return thread_class;
}

namespace {

/// Whether the calling thread counts main memory and meta tensors.
bool counts_here() {
  return thread_tally != nullptr && thread_tally->device() == c10::kCPU;
}

/// Must be called before anything is allocated.
void check_limit(std::size_t bytes) {
  if (counts_here()) thread_tally->check_limit(thread_class, static_cast<std::int64_t>(bytes));
}

/// A piece of memory of another allocator, and the tally that counts it.
struct Piece {
  /// The piece is counted for the meter and class of the calling thread. Without a meter it is not
  /// counted.
  Piece(c10::DataPtr piece, std::size_t size)
      : memory(std::move(piece)),
        tally(tally_of_thread(c10::kCPU)),
        bytes(static_cast<std::int64_t>(size)),
        kind(thread_class) {
    if (tally != nullptr) tally->add(kind, bytes);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  ~Piece() {
    if (tally != nullptr) tally->add(kind, -bytes);
  }

  void count_as(MemoryClass other) {
    if (tally != nullptr) {
      if (kind == MemoryClass::kWorkspace) tally->check_limit(other, bytes);
      tally->add(kind, -bytes);
      tally->add(other, bytes);
    }
    kind = other;
  }

  c10::DataPtr memory;
  std::shared_ptr<MemoryTally> tally;
  std::int64_t bytes;
  MemoryClass kind;
};

/// Wraps an allocator of libtorch and counts.
class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  // In libtorch 1.13 `allocate` is const. In later versions it is not, and there is a `copy_data`
  // as well. So these functions have no "override".
  // NOLINTBEGIN(modernize-use-override)
  c10::DataPtr allocate(std::size_t bytes) const { return take(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return take(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    if (to != nullptr) std::memcpy(to, from, bytes);
  }
  // NOLINTEND(modernize-use-override)

 protected:
  c10::DataPtr from_inner(std::size_t bytes) const { return inner_->allocate(bytes); }

 private:
  virtual c10::DataPtr take(std::size_t bytes) const = 0;

  c10::Allocator* inner_;
};

/// Main memory. Libraries inside libtorch allocate by plain addresses (`raw_allocate`), which works
/// only if the address is enough to free the memory. So a header lies before the data of every
/// piece, counted or not.
class MainMemory final : public CountingAllocator {
 public:
  using CountingAllocator::CountingAllocator;

  c10::DeleterFnPtr raw_deleter() const override { return &free_data; }

  /// The piece of this memory; null if it is not of this allocator.
  static Piece* piece_of(const c10::DataPtr& data) {
    if (data.get_deleter() != &free_data || data.get() == nullptr) return nullptr;
    return header_of(data.get());
  }

 private:
  /// A multiple of the 64 bytes at which libtorch aligns data.
  static constexpr std::size_t kHeader = (sizeof(Piece) + 63) / 64 * 64;

  static Piece* header_of(void* data) {
    return std::launder(reinterpret_cast<Piece*>(static_cast<std::byte*>(data) - kHeader));
  }

  static void free_data(void* data) {
    if (data == nullptr) return;
    Piece* header = header_of(data);
    // The header lies in the memory that it owns, so ownership is moved out first.
    const c10::DataPtr memory = std::move(header->memory);
    std::destroy_at(header);
  }

  c10::DataPtr take(std::size_t bytes) const override {
    if (bytes == 0) return {nullptr, nullptr, &free_data, c10::Device(c10::kCPU)};
    TORCH_CHECK(bytes <= std::numeric_limits<std::size_t>::max() - kHeader, "no memory for ", bytes,
                " bytes");
    check_limit(bytes);
    c10::DataPtr memory = from_inner(bytes + kHeader);
    const c10::Device device = memory.device();
    auto* start = static_cast<std::byte*>(memory.get());
    new (start) Piece(std::move(memory), bytes);
    void* data = start + kHeader;
    return {data, data, &free_data, device};
  }
};

/// Meta tensors have no data, so they get a context of their own.
class MetaMemory final : public CountingAllocator {
 public:
  using CountingAllocator::CountingAllocator;

  static Piece* piece_of(const c10::DataPtr& data) {
    if (data.get_deleter() != &free_piece) return nullptr;
    return static_cast<Piece*>(data.get_context());
  }

 private:
  static void free_piece(void* piece) { delete static_cast<Piece*>(piece); }

  c10::DataPtr take(std::size_t bytes) const override {
    check_limit(bytes);
    c10::DataPtr memory = from_inner(bytes);
    if (!counts_here() || bytes == 0) return memory;
    void* data = memory.get();
    const c10::Device device = memory.device();
    return {data, std::make_unique<Piece>(std::move(memory), bytes).release(), &free_piece, device};
  }
};

/// libtorch's allocators are global, and may only be changed while there is one thread. So they are
/// replaced at the start of the process, whether or not a meter is made later. (Libraries are
/// initialised before the program, so libtorch's own allocators exist already.)
bool install() {
  static MainMemory cpu(c10::GetAllocator(c10::kCPU));
  static MetaMemory meta(c10::GetAllocator(c10::kMeta));
  c10::SetAllocator(c10::kCPU, &cpu, 100);
  c10::SetAllocator(c10::kMeta, &meta, 100);
  return true;
}
[[maybe_unused]] const bool kInstalled = install();

}  // namespace

MemoryMeter::MemoryMeter(c10::DeviceType device) : tally_(std::make_shared<MemoryTally>(device)) {}

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
void MemoryMeter::set_limit(Bytes limit, std::function<std::string(const MemoryExcess&)> describe) {
  tally_->set_limit(limit, std::move(describe));
}
void MemoryMeter::lift_limit() {
  tally_->set_limit(kNoLimit, nullptr);
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

void count_as(const at::Tensor& tensor, MemoryClass kind) {
  if (tensor.is_cuda()) return count_gpu_memory_as(tensor.storage().data_ptr().get(), kind);
  const c10::DataPtr& data = tensor.storage().data_ptr();
  Piece* piece = MainMemory::piece_of(data);
  if (piece == nullptr) piece = MetaMemory::piece_of(data);
  if (piece != nullptr) piece->count_as(kind);
}

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace fourfold::tensor
