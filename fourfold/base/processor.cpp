// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/processor.hpp"

#include <cstdlib>
#include <span>
#include <string_view>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace fourfold {

namespace {

struct Way {
  const char* name;
  const char* needs;  ///< the instructions without which it does not run; null: it runs everywhere
};

struct Words {
  const char* name;
  const char* variable;
  const char* decider;  ///< what decides if the variable is not set
  std::span<const Way> ways;
};

constexpr Way kVectors[] = {
    {"plain", nullptr}, {"avx2", "AVX2 and FMA"}, {"avx512", "AVX-512 (F, BW, DQ and VL)"}};
constexpr Way kBf16Products[] = {{"float", nullptr}, {"native", nullptr}};

constexpr Way kKernels[] = {{"own", nullptr}, {"aten", nullptr}};

constexpr std::array<Words, kChoices> kWords = {
    {{"vectors", "FOURFOLD_VECTORS", "processor", kVectors},
     {"bf16 products", "FOURFOLD_BF16_PRODUCTS", "processor", kBf16Products},
     {"kernels", "FOURFOLD_KERNELS", "device", kKernels}}};

const Words& words_of(Choice choice) {
  return kWords[static_cast<std::size_t>(choice)];
}

const Way& words_of(Choice choice, int way) {
  return words_of(choice).ways[static_cast<std::size_t>(way)];
}

std::atomic<std::int8_t>& state_of(Choice choice) {
  return detail::choice_states[static_cast<std::size_t>(choice)];
}

/// The best way on this processor.
int best_way(Choice choice) {
#ifdef __x86_64__
  switch (choice) {
    case Choice::kVectors: {
      const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
      return avx2 && has_avx512() ? 2 : avx2 ? 1 : 0;
    }
    case Choice::kBf16Products:
      return __builtin_cpu_supports("avx512bf16") != 0 ? 1 : 0;
    case Choice::kKernels:
      break;
  }
  return 0;
#else
  return choice == Choice::kBf16Products ? 1 : 0;
#endif
}

void check_possible(Choice choice, int way, const char* asked) {
  if (can_take_way(choice, way)) return;
  throw ConfigError(concat(asked, ": this processor has no ", words_of(choice, way).needs, "; ",
                           words_of(choice, 0).name, " runs everywhere"));
}

/// "plain, avx2 or avx512".
std::string names_of(const Words& words) {
  std::string names = words.ways[0].name;
  for (std::size_t i = 1; i < words.ways.size(); ++i) {
    names += concat(i + 1 < words.ways.size() ? ", " : " or ", words.ways[i].name);
  }
  return names;
}

/// The way that the variable names, if it is set and not empty, or else the best of this processor.
int chosen_way(Choice choice) {
  const Words& words = words_of(choice);
  const char* text = std::getenv(words.variable);
  if (text == nullptr || *text == '\0') return best_way(choice);
  const std::string_view value(text);
  const std::string asked = concat(words.variable, "=", value);
  for (int way = 0; way < ways_of(choice); ++way) {
    if (value != words_of(choice, way).name) continue;
    check_possible(choice, way, asked.c_str());
    return way;
  }
  throw ConfigError(concat(asked, " must be ", names_of(words), ", or not set: then the ",
                           words.decider, " decides"));
}

}  // namespace

namespace detail {

std::array<std::atomic<std::int8_t>, kChoices> choice_states = {{kUnknown, kUnknown, kUnknown}};

int decide(Choice choice) {
  const int way = chosen_way(choice);
  state_of(choice) = static_cast<std::int8_t>(way);
  return way;
}

}  // namespace detail

void check_choices() {
  for (std::size_t i = 0; i < kChoices; ++i) way_of(static_cast<Choice>(i));
}

ChoiceText describe(Choice choice) {
  const Words& words = words_of(choice);
  const char* text = std::getenv(words.variable);
  const bool forced = text != nullptr && *text != '\0';
  return {words.name, words_of(choice, way_of(choice)).name,
          forced ? words.variable : concat("by ", words.decider)};
}

int ways_of(Choice choice) {
  return static_cast<int>(words_of(choice).ways.size());
}

bool can_take_way(Choice choice, int way) {
  return words_of(choice, way).needs == nullptr || way <= best_way(choice);
}

ForcedChoice::ForcedChoice(Choice choice, int way) : choice_(choice), before_(state_of(choice)) {
  check_possible(choice, way, words_of(choice, way).name);
  state_of(choice) = static_cast<std::int8_t>(way);
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
