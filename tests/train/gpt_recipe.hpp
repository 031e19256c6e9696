// How a GPT is trained, with the model as plain values that a test can change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/model/gpt.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::test {

struct GptRecipe {
  model::GptSpec model;
  std::int64_t batch = 0;
  std::int64_t micro_batch = 0;
  int chunks = 1;
  optim::AdamWSpec optimizer;
  optim::LearningRate learning_rate;
  double clip = 0;
  tensor::Overlap overlap;

  GptRecipe() = default;
  GptRecipe(const train::Recipe& recipe)
      : model(dynamic_cast<const model::GptModel&>(*recipe.model).spec()),
        batch(recipe.batch),
        micro_batch(recipe.micro_batch),
        chunks(recipe.chunks),
        optimizer(recipe.optimizer),
        learning_rate(recipe.learning_rate),
        clip(recipe.clip),
        overlap(recipe.overlap) {}

  operator train::Recipe() const {
    return {.model = std::make_shared<model::GptModel>(model),
            .batch = batch,
            .micro_batch = micro_batch,
            .chunks = chunks,
            .optimizer = optimizer,
            .learning_rate = learning_rate,
            .clip = clip,
            .overlap = overlap};
  }
};

}  // namespace fourfold::test
