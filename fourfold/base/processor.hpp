// What is computed in one of two ways, depending on the processor. This is the only place that asks
// what the processor can do, and a variable of the environment can force each choice, so that both
// ways can be run and tested on one machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace fourfold {

/// Each has a way for special instructions and one without.
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

/// Reads the variables of all choices. Throws ConfigError if one has a value that it does not know
/// or that this processor cannot do; for the start of a program. Without it, the first use throws.
void check_choices();

/// A choice in words, for people.
struct ChoiceText {
  std::string name;  ///< "vectors", "bf16 products"
  std::string way;   ///< as the variable spells it: "wide", "plain", "native", "float"
  std::string by;    ///< the variable if it is set, "by processor" otherwise
};
ChoiceText describe(Choice choice);

/// Whether this processor can take the special way. (The other one runs everywhere.)
bool can_take_special_way(Choice choice);

namespace detail {
enum ChoiceState : std::int8_t { kUnknown = -1, kPlainWay = 0, kSpecialWay = 1 };
extern std::array<std::atomic<std::int8_t>, kChoices> choice_states;
bool settle_choice(Choice choice);
}  // namespace detail

/// Whether the way with special instructions is taken. Cheap: kernels ask at every call.
inline bool takes_special_way(Choice choice) {
  const std::int8_t state =
      detail::choice_states[static_cast<std::size_t>(choice)].load(std::memory_order_relaxed);
  return state == detail::kUnknown ? detail::settle_choice(choice) : state == detail::kSpecialWay;
}

/// Forces a choice in this process, for all threads, until it ends: for tests that compare the two
/// ways. Throws ConfigError if the processor cannot take the special way.
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

/// The tiles of AMX. Some virtual machines show that a processor has them but not the leaf of CPUID
/// that describes them; oneDNN then configures no tile and dies of an illegal instruction.
enum class Tiles { kNone, kUsable, kNotDescribed };
Tiles tiles_of_processor();

}  // namespace fourfold
