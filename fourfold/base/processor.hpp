// Choices between two implementations, depending on the processor. This is the only place that
// queries the processor. An environment variable can force each choice, so that both
// implementations can be run and tested on one machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fourfold {

/// Each choice has an implementation with special instructions and one without.
enum class Choice {
  /// Loops compiled for AVX2 and FMA, or for every processor: FOURFOLD_VECTORS=wide|plain. "wide"
  /// needs the instructions. The two may round differently: fused products are rounded once, and
  /// sums are formed in another order.
  kVectors,
  /// Products of bf16 by libtorch's kernels for bf16, or by way of float:
  /// FOURFOLD_BF16_PRODUCTS=native|float. Both run on every processor (docs/decisions/006).
  kBf16Products
};
inline constexpr std::size_t kChoices = 2;

/// Reads the variables of all choices, at the start of a program. Throws ConfigError if one has an
/// unknown value or a value that this processor does not support. If this is not called, the first
/// use throws.
void check_choices();

/// A choice as text, for people.
struct ChoiceText {
  std::string name;  ///< "vectors", "bf16 products"
  std::string way;   ///< the value of the variable: "wide", "plain", "native", "float"
  std::string by;    ///< the variable if it is set, "by processor" otherwise
};
ChoiceText describe(Choice choice);

/// Whether this processor supports the implementation with special instructions. (The other one
/// runs everywhere.)
bool can_take_special_way(Choice choice);

namespace detail {
enum ChoiceState : std::int8_t { kUnknown = -1, kPlainWay = 0, kSpecialWay = 1 };
extern std::array<std::atomic<std::int8_t>, kChoices> choice_states;
bool settle_choice(Choice choice);
}  // namespace detail

/// Whether the implementation with special instructions is used. This is cheap: kernels ask at
/// every call.
inline bool takes_special_way(Choice choice) {
  const std::int8_t state =
      detail::choice_states[static_cast<std::size_t>(choice)].load(std::memory_order_relaxed);
  return state == detail::kUnknown ? detail::settle_choice(choice) : state == detail::kSpecialWay;
}

/// Forces a choice in this process, for all threads, while it lives. It is for tests that compare
/// the two implementations. Throws ConfigError if the processor does not support the special one.
class ForcedChoice {
 public:
  ForcedChoice(Choice choice, bool special);
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
