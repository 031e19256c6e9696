// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/processor.hpp"

#include <cstdlib>
#include <string_view>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace fourfold {

namespace {

struct Words {
  const char* name;
  const char* variable;
  const char* special;
  const char* plain;
  const char* needs;  ///< what the special implementation needs; null: it runs everywhere
};

constexpr std::array<Words, kChoices> kWords = {
    {{"vectors", "FOURFOLD_VECTORS", "wide", "plain", "AVX2 and FMA"},
     {"bf16 products", "FOURFOLD_BF16_PRODUCTS", "native", "float", nullptr}}};

const Words& words_of(Choice choice) {
  return kWords[static_cast<std::size_t>(choice)];
}

std::atomic<std::int8_t>& state_of(Choice choice) {
  return detail::choice_states[static_cast<std::size_t>(choice)];
}

/// Whether the special implementation is fast on this processor.
bool suits_processor(Choice choice) {
#ifdef __x86_64__
  switch (choice) {
    case Choice::kVectors:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case Choice::kBf16Products:
      return __builtin_cpu_supports("avx512bf16") != 0;
  }
  return false;
#else
  return choice == Choice::kBf16Products;
#endif
}

void check_possible(Choice choice, bool special, const char* asked) {
  if (!special || can_take_special_way(choice)) return;
  throw ConfigError(concat(asked, ": this processor has no ", words_of(choice).needs, "; ",
                           words_of(choice).plain, " runs everywhere"));
}

/// Decides by the variable, if it is set and not empty, or by the processor.
bool decide(Choice choice) {
  const Words& words = words_of(choice);
  const char* text = std::getenv(words.variable);
  if (text == nullptr || *text == '\0') return suits_processor(choice);
  const std::string_view value(text);
  const std::string asked = concat(words.variable, "=", value);
  if (value != words.special && value != words.plain) {
    throw ConfigError(concat(asked, " must be ", words.special, " or ", words.plain,
                             ", or not set: then the processor decides"));
  }
  check_possible(choice, value == words.special, asked.c_str());
  return value == words.special;
}

}  // namespace

namespace detail {

std::array<std::atomic<std::int8_t>, kChoices> choice_states = {{kUnknown, kUnknown}};

bool settle_choice(Choice choice) {
  const bool special = decide(choice);
  state_of(choice) = special ? kSpecialWay : kPlainWay;
  return special;
}

}  // namespace detail

void check_choices() {
  for (std::size_t i = 0; i < kChoices; ++i) takes_special_way(static_cast<Choice>(i));
}

ChoiceText describe(Choice choice) {
  const Words& words = words_of(choice);
  const char* text = std::getenv(words.variable);
  const bool forced = text != nullptr && *text != '\0';
  return {words.name, takes_special_way(choice) ? words.special : words.plain,
          forced ? words.variable : "by processor"};
}

bool can_take_special_way(Choice choice) {
  return words_of(choice).needs == nullptr || suits_processor(choice);
}

ForcedChoice::ForcedChoice(Choice choice, bool special)
    : choice_(choice), before_(state_of(choice)) {
  check_possible(choice, special, words_of(choice).special);
  state_of(choice) = special ? detail::kSpecialWay : detail::kPlainWay;
}

ForcedChoice::~ForcedChoice() {
  state_of(choice_) = before_;
}

bool has_avx512() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#else
  return false;
#endif
}

Tiles tiles_of_processor() {
#ifdef __x86_64__
  constexpr unsigned kFeatures = 7;
  constexpr unsigned kHasTiles = 1U << 24;  // in edx
  constexpr unsigned kTilePalettes = 0x1d;  // eax: how many palettes there are
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) == 0 || (d & kHasTiles) == 0) {
    return Tiles::kNone;
  }
  const bool described = __get_cpuid_count(kTilePalettes, 0, &a, &b, &c, &d) != 0 && a > 0;
  return described ? Tiles::kUsable : Tiles::kNotDescribed;
#else
  return Tiles::kNone;
#endif
}

}  // namespace fourfold
