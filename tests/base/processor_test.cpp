// Choices by processor: forced by the environment, forced in the process, and what is refused.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/processor.hpp"

#include <array>
#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::test {
namespace {

/// The variables of this process are read anew, with one of them set or not; and then as before.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Variable() { set(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) const {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
    for (auto& state : detail::choice_states) state = detail::kUnknown;
  }

  const char* name_;
  std::optional<std::string> before_;
};

std::string refusal() {
  try {
    check_choices();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Processor, TheVariableDecidesOnBf16ProductsOnEveryProcessor) {
  for (const auto& [value, special] : {std::pair{"native", true}, {"float", false}}) {
    const Variable variable("FOURFOLD_BF16_PRODUCTS", value);
    EXPECT_EQ(refusal(), "accepted");
    EXPECT_EQ(takes_special_way(Choice::kBf16Products), special);
    const ChoiceText text = describe(Choice::kBf16Products);
    EXPECT_EQ(text.name, "bf16 products");
    EXPECT_EQ(text.way, value);
    EXPECT_EQ(text.by, "FOURFOLD_BF16_PRODUCTS");
  }
}

TEST(Processor, TheVariableDecidesOnVectors) {
  const std::array<std::pair<const char*, const char*>, 3> ways = {
      {{"plain", ""}, {"avx2", "AVX2 and FMA"}, {"avx512", "AVX-512 (F, BW, DQ and VL)"}}};
  EXPECT_EQ(ways_of(Choice::kVectors), 3);
  for (int way = 0; way < 3; ++way) {
    const auto& [value, needs] = ways[static_cast<std::size_t>(way)];
    const Variable variable("FOURFOLD_VECTORS", value);
    if (can_take_way(Choice::kVectors, way)) {
      EXPECT_EQ(refusal(), "accepted");
      EXPECT_EQ(way_of(Choice::kVectors), way);
      EXPECT_EQ(takes_special_way(Choice::kVectors), way > 0);
      EXPECT_EQ(describe(Choice::kVectors).way, value);
      EXPECT_EQ(describe(Choice::kVectors).by, "FOURFOLD_VECTORS");
    } else {
      EXPECT_EQ(refusal(), concat("FOURFOLD_VECTORS=", value, ": this processor has no ", needs,
                                  "; plain runs everywhere"));
    }
  }
}

/// A processor with a later way has those before it, too.
TEST(Processor, WaysOfVectorsIncludeThoseBefore) {
  EXPECT_TRUE(can_take_way(Choice::kVectors, 0));
  EXPECT_EQ(can_take_way(Choice::kVectors, 2),
            has_avx512() && can_take_special_way(Choice::kVectors));
}

TEST(Processor, TheVariableDecidesOnKernels) {
  for (const auto& [value, way] : {std::pair{"own", 0}, {"aten", 1}}) {
    const Variable variable("FOURFOLD_KERNELS", value);
    EXPECT_EQ(refusal(), "accepted");
    EXPECT_EQ(way_of(Choice::kKernels), way);
    const ChoiceText text = describe(Choice::kKernels);
    EXPECT_EQ(text.name, "kernels");
    EXPECT_EQ(text.way, value);
    EXPECT_EQ(text.by, "FOURFOLD_KERNELS");
  }
  const Variable variable("FOURFOLD_KERNELS", "cuda");
  EXPECT_EQ(refusal(),
            "FOURFOLD_KERNELS=cuda must be own or aten, or not set: then the device decides");
}

TEST(Processor, WithoutAVariableKernelsAreThoseOfTheDevice) {
  const Variable variable("FOURFOLD_KERNELS", nullptr);
  EXPECT_EQ(way_of(Choice::kKernels), 0);
  EXPECT_EQ(describe(Choice::kKernels).by, "by device");
}

TEST(Processor, WithoutAVariableTheProcessorDecides) {
  for (const char* value : {static_cast<const char*>(nullptr), ""}) {
    const Variable vectors("FOURFOLD_VECTORS", value);
    const Variable products("FOURFOLD_BF16_PRODUCTS", value);
    EXPECT_EQ(refusal(), "accepted");
    int best = 0;
    for (int way = 0; way < 3; ++way) best = can_take_way(Choice::kVectors, way) ? way : best;
    EXPECT_EQ(way_of(Choice::kVectors), best);
    for (const Choice choice : {Choice::kVectors, Choice::kBf16Products}) {
      EXPECT_EQ(describe(choice).by, "by processor");
    }
  }
}

TEST(Processor, OtherValuesAreRefused) {
  {
    const Variable variable("FOURFOLD_BF16_PRODUCTS", "Native");
    EXPECT_EQ(refusal(),
              "FOURFOLD_BF16_PRODUCTS=Native must be float or native, or not set: then the "
              "processor decides");
    EXPECT_THROW(takes_special_way(Choice::kBf16Products), ConfigError) << "still";
  }
  const Variable variable("FOURFOLD_VECTORS", "wide");
  EXPECT_EQ(refusal(),
            "FOURFOLD_VECTORS=wide must be plain, avx2 or avx512, or not set: then the processor "
            "decides");
}

TEST(Processor, TestsForceAChoiceForAWhile) {
  const bool before = takes_special_way(Choice::kBf16Products);
  for (const bool special : {false, true}) {
    const ForcedChoice outer(Choice::kBf16Products, special);
    EXPECT_EQ(takes_special_way(Choice::kBf16Products), special);
    {
      const ForcedChoice inner(Choice::kBf16Products, !special);
      EXPECT_EQ(takes_special_way(Choice::kBf16Products), !special);
    }
    EXPECT_EQ(takes_special_way(Choice::kBf16Products), special);
  }
  EXPECT_EQ(takes_special_way(Choice::kBf16Products), before);
}

}  // namespace
}  // namespace fourfold::test
