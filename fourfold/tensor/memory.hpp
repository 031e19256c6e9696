// How many bytes the tensors of a rank take, by what they are for. Real tensors and meta tensors
// are counted where libtorch allocates them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "fourfold/base/units.hpp"

namespace fourfold::tensor {

/// Workspace is what a product needs while it is computed, beyond operands and result: scratch of a
/// library, copies in another type. It depends on the processor and the library, so that a dry run
/// cannot know it.
enum class MemoryClass {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kWorkspace
};
inline constexpr std::size_t kMemoryClasses = 6;
/// All classes but workspace, which is the last one. Totals are made of these classes, and a dry
/// run knows them.
inline constexpr std::size_t kPlannedClasses = 5;

/// "parameters", "gradients", "optimizer", "activations", "communication", "workspace".
std::string_view to_string(MemoryClass kind);

/// Bytes by class.
struct MemoryUse {
  std::array<Bytes, kMemoryClasses> by_class{};

  Bytes operator[](MemoryClass kind) const { return by_class[static_cast<std::size_t>(kind)]; }
  /// The sum without workspace. It is the same on every processor.
  Bytes total() const;
  bool operator==(const MemoryUse&) const = default;
};

/// An allocation that would exceed a limit.
struct MemoryExcess {
  MemoryClass kind{};  ///< of the allocation
  Bytes bytes;         ///< of the allocation
  MemoryUse use;       ///< before it
  Bytes limit;
};

/// Counts the tensors that a thread allocates while a `Counting` of this meter is alive in that
/// thread. A tensor is counted until it is freed, by whichever thread. Only tensors of one kind of
/// device are counted; meta tensors count as the processor's.
class MemoryMeter {
 public:
  explicit MemoryMeter(c10::DeviceType device = c10::kCPU);

  MemoryUse now() const;
  /// The use at the moment when the total was largest since the last `reset_peak`.
  MemoryUse at_peak() const;
  /// The peak of each class. The peaks need not have been at the same time.
  MemoryUse peaks() const;
  void reset_peak();

  /// From now on an allocation with which the total would be above `limit` throws ConfigError with
  /// the text that `describe` makes. Workspace is not limited, since no total contains it. The
  /// memory of GPUs is limited where it is allocated (`use_gpu`), not here.
  void set_limit(Bytes limit, std::function<std::string(const MemoryExcess&)> describe);
  void lift_limit();

  /// Makes this meter count the allocations of the calling thread.
  class Counting {
   public:
    explicit Counting(const MemoryMeter& meter);
    Counting(const Counting&) = delete;
    Counting& operator=(const Counting&) = delete;
    ~Counting();

   private:
    std::shared_ptr<class MemoryTally> before_;
  };

 private:
  std::shared_ptr<class MemoryTally> tally_;
};

/// Makes the process keep the memory of freed tensors for later tensors. By default large pieces
/// are returned to the system at once, so that every step touches every page of every tensor for
/// the first time again. For programs that train; call it first.
void keep_freed_memory();

/// While a MemoryScope is alive, what the calling thread allocates belongs to its class. Outside of
/// any scope, allocations count as activations.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryClass kind);
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
  ~MemoryScope();

 private:
  MemoryClass before_;
};

/// From now on the memory of a tensor belongs to another class. For a library that allocates its
/// result beside what it needs meanwhile: all of it is workspace at first, and then the result is
/// not. It is limited like an allocation.
void count_as(const at::Tensor& tensor, MemoryClass kind);

}  // namespace fourfold::tensor
