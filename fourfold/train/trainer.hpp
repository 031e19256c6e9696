// Training steps of a GPT: batches in, parameters changed, loss and norm out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/model/gpt.hpp"
#include "fourfold/optim/adamw.hpp"
#include "fourfold/optim/schedule.hpp"

namespace fourfold::train {

using at::Tensor;
using tensor::Mesh;

/// What is trained, and how.
struct Recipe {
  model::GptSpec model;
  std::int64_t batch = 0;        ///< sequences of a step, over the whole grid
  std::int64_t micro_batch = 0;  ///< of a forward pass; divides the batch
  optim::AdamWSpec optimizer;
  optim::RateSchedule rates;
  double clip = 0;          ///< the largest global norm of the gradients; 0: any
  tensor::Overlap overlap;  ///< for the mesh that it is trained on
};

/// Writes the tokens of a sample, and for each the one that follows it.
using ReadSample =
    std::function<void(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets)>;

struct StepResult {
  double loss = 0;  ///< the mean over the tokens of the step
  double grad_norm = 0;
  double rate = 0;
};

class Trainer {
 public:
  /// Throws ConfigError that says what to change when the model does not fit the grid. `fill` may
  /// give the parameters other values than the random ones.
  Trainer(const Mesh& mesh, const Recipe& recipe,
          const std::function<void(const model::Gpt&)>& fill = {});

  /// Step 1, 2, ...: its samples are those from (number - 1) * batch on. On a dry mesh nothing is
  /// read, and the result means nothing. Throws Error, on all ranks and before any parameter has
  /// changed, when the loss or a gradient is not finite: it names step, rank and tensor.
  StepResult step(std::int64_t number, const ReadSample& read);

  /// Waits for what the last step has left under way. The next step would, too.
  void settle() const;

  /// The mean loss of the samples 0 to passes * micro_batch, without dropout.
  double validate(std::int64_t passes, const ReadSample& read) const;

  const Recipe& recipe() const { return recipe_; }
  const model::Gpt& model() const { return model_; }

 private:
  struct Pass {
    nn::Batch batch;
    Tensor tokens;
    Tensor targets;
  };
  /// Forward and backward; returns this rank's part of the loss.
  double run_pass(const Pass& pass);
  Pass read_pass(std::int64_t first_sample, const ReadSample& read) const;
  double run_passes(std::int64_t number, const ReadSample& read);

  const Mesh* mesh_;
  Recipe recipe_;
  model::Gpt model_;
  tensor::GatherPlan gathers_;
  optim::AdamW optimizer_;
};

/// 6 flops for every token and parameter that is used in products, and 12 for every token, layer,
/// column and position of attention: the field's usual count. Recomputation does not count.
Flops model_flops(const model::GptSpec& spec, std::int64_t tokens);

}  // namespace fourfold::train
