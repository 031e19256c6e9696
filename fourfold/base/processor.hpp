// Choices between implementations, depending on the processor. This is the only place that queries
// the processor. An environment variable can force each choice, so that all implementations that
// the processor supports can be run and tested on one machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fourfold {

/// Each choice has ways, counted from 0. Way 0 runs on every processor. Of vectors and of products
/// the others use special instructions, and later ones are better where they are supported.
enum class Choice {
  /// Loops compiled for every processor, for AVX2 and FMA, or for AVX-512 (decision 023):
  /// FOURFOLD_VECTORS=plain|avx2|avx512. The ways may round differently: fused products are rounded
  /// once, and sums are formed in another order.
  kVectors,
  /// Products of bf16 by way of float, or by libtorch's kernels for bf16:
  /// FOURFOLD_BF16_PRODUCTS=float|native. Both run on every processor (docs/decisions/006).
  kBf16Products,
  /// Kernels that are tuned for the device of their tensors, or libtorch's operations, which run on
  /// every device (docs/decisions/031): FOURFOLD_KERNELS=own|aten.
  kKernels
};
inline constexpr std::size_t kChoices = 3;

/// Reads the variables of all choices, at the start of a program. Throws ConfigError if one has an
/// unknown value or a value that this processor does not support. If this is not called, the first
/// use throws.
void check_choices();

/// A choice as text, for people.
struct ChoiceText {
  std::string name;  ///< "vectors", "bf16 products", "kernels"
  std::string way;   ///< the value of the variable: "plain", "avx2", "avx512", "native", "own", ...
  std::string by;    ///< the variable if it is set, else "by processor", or "by device" of kernels
};
ChoiceText describe(Choice choice);

/// The number of ways of a choice, and whether this processor supports one of them.
int ways_of(Choice choice);
bool can_take_way(Choice choice, int way);

/// Whether this processor supports a way with special instructions.
inline bool can_take_special_way(Choice choice) {
  return can_take_way(choice, 1);
}

namespace detail {
inline constexpr std::int8_t kUnknown = -1;
extern std::array<std::atomic<std::int8_t>, kChoices> choice_states;
int decide(Choice choice);
}  // namespace detail

/// The way that is taken. This is cheap: kernels ask at every call.
inline int way_of(Choice choice) {
  const std::int8_t state =
      detail::choice_states[static_cast<std::size_t>(choice)].load(std::memory_order_relaxed);
  return state == detail::kUnknown ? detail::decide(choice) : state;
}

/// Whether another way than the first one is taken.
inline bool takes_special_way(Choice choice) {
  return way_of(choice) > 0;
}

/// Forces a choice in this process, for all threads, while it lives. It is for tests that compare
/// the implementations. Throws ConfigError if the processor does not support the way.
class ForcedChoice {
 public:
  ForcedChoice(Choice choice, int way);
  ForcedChoice(const ForcedChoice&) = delete;
  ForcedChoice& operator=(const ForcedChoice&) = delete;
  ~ForcedChoice();

 private:
  Choice choice_;
  std::int8_t before_;
};

/// Whether this processor has the AVX-512 instructions of servers since Skylake.
bool has_avx512();

/// The tiles of AMX. Some virtual machines report that a processor has them but not the leaf of
/// CPUID that describes them. oneDNN then configures no tile and dies of an illegal instruction.
enum class Tiles { kNone, kUsable, kNotDescribed };
Tiles tiles_of_processor();

}  // namespace fourfold
