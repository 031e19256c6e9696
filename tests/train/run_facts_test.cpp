// What a run tells about itself.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run_facts.hpp"

#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/model/gpt.hpp"

namespace fourfold::test {
namespace {

TEST(RunFacts, CountEveryParameter) {
  for (const bool tied : {true, false}) {
    model::GptSpec spec;
    spec.vocabulary = 37;
    spec.width = 24;
    spec.heads = 4;
    spec.layers = 3;
    spec.context = 10;
    spec.tied = tied;
    const std::int64_t width = spec.width;
    const std::int64_t norm = 2 * width;
    // These are the weights and biases of query, key and value, of the projection, and of the
    // network's two layers.
    const std::int64_t block = 2 * norm + 12 * width * width + 9 * width;
    const std::int64_t tables = tied ? 1 : 2;
    EXPECT_EQ(model::GptModel(spec).parameter_count(),
              (tables * spec.vocabulary + spec.context) * width + spec.layers * block + norm);
  }
}

TEST(RunFacts, NumbersAreEasyToRead) {
  EXPECT_EQ(train::with_commas(0), "0");
  EXPECT_EQ(train::with_commas(999), "999");
  EXPECT_EQ(train::with_commas(1000), "1,000");
  EXPECT_EQ(train::with_commas(-123456), "-123,456");
  EXPECT_EQ(train::with_commas(1234567890), "1,234,567,890");
}

TEST(RunFacts, SayHowLargeARunIs) {
  train::RunFacts facts;
  facts.parameters = 124439808;
  facts.precision = "bf16";
  facts.strategy = "4d";
  facts.grid = "x=2,y=2";
  facts.steps = 900;
  facts.samples_per_step = 16;
  facts.units_per_step = 16384;
  facts.train_units = 1234567;
  facts.epochs = 11.94;
  EXPECT_EQ(train::describe(facts),
            "124.4 M parameters in bf16, strategy 4d on x=2,y=2; 900 steps of 16,384 tokens (16 "
            "sequences of 1,024): 11.94 epochs of 1,234,567 tokens");
  facts.parameters = 79900000000;
  facts.unit = "images";
  facts.units_per_step = facts.samples_per_step;
  EXPECT_NE(
      train::describe(facts).find("; 900 steps of 16 images: 11.94 epochs of 1,234,567 images"),
      std::string::npos)
      << train::describe(facts);
  facts.epochs = 0.00012;
  const std::string large = train::describe(facts);
  EXPECT_EQ(large.find("79.9 B parameters"), 0U) << large;
  EXPECT_NE(large.find(": 0.00012 epochs of"), std::string::npos) << large;
}

}  // namespace
}  // namespace fourfold::test
