// What a rank's tensors weigh, by what they are for: counted where libtorch allocates them, real
// tensors and meta tensors alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "fourfold/base/units.hpp"

namespace fourfold::tensor {

/// Workspace is what a product needs while it is made, beyond operands and result: scratch of a
/// library, copies in another type. It depends on the processor and the library, so that a dry run
/// does not know it.
enum class MemoryClass {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kWorkspace
};
inline constexpr std::size_t kMemoryClasses = 6;
/// All but workspace, which is the last: what totals are made of, and a dry run knows.
inline constexpr std::size_t kPlannedClasses = 5;

/// "parameters", "gradients", "optimizer", "activations", "communication", "workspace".
std::string_view to_string(MemoryClass kind);

/// Bytes by class.
struct MemoryUse {
  std::array<Bytes, kMemoryClasses> by_class{};

  Bytes operator[](MemoryClass kind) const { return by_class[static_cast<std::size_t>(kind)]; }
  /// Without workspace: the same on every processor.
  Bytes total() const;
  bool operator==(const MemoryUse&) const = default;
};

/// Counts the tensors that the thread allocates while a `Counting` of this meter is alive there.
/// They are counted until they are freed, by whichever thread.
class MemoryMeter {
 public:
  MemoryMeter();

  MemoryUse now() const;
  /// When the total was largest. Since the last `reset_peak`.
  MemoryUse at_peak() const;
  /// Each class's own peak; they need not have been at the same time.
  MemoryUse peaks() const;
  void reset_peak();

  /// Makes the meter the calling thread's.
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

/// The process keeps the memory of tensors that go away, for the next ones. By default large pieces
/// go back to the system at once, and a step touches every page of every tensor for the first time
/// again. For programs that train; call it first.
void keep_freed_memory();

/// What the calling thread allocates while it is alive belongs to this class. Without one it is
/// activations.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryClass kind);
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;
  ~MemoryScope();

 private:
  MemoryClass before_;
};

}  // namespace fourfold::tensor
