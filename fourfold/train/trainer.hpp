// Training steps of a GPT: batches in, parameters changed, loss and norm out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "fourfold/optim/adamw.hpp"
#include "fourfold/optim/schedule.hpp"
#include "fourfold/train/pipeline.hpp"

namespace fourfold::train {

/// What is trained, and how.
struct Recipe {
  model::GptSpec model;
  std::int64_t batch = 0;        ///< sequences of a step, over the whole grid
  std::int64_t micro_batch = 0;  ///< of a forward pass; divides the batch
  int chunks = 1;                ///< stages of the pipeline that a rank has
  optim::AdamWSpec optimizer;
  optim::RateSchedule rates;
  double clip = 0;          ///< the largest global norm of the gradients; 0: any
  tensor::Overlap overlap;  ///< for the mesh that it is trained on
};

/// Throws ConfigError for passes that do not divide, and for what does not go with a pipeline of so
/// many places.
void check_recipe(const Recipe& recipe, int places);

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
  void settle();

  /// The mean loss of the samples 0 to passes * micro_batch, without dropout.
  double validate(std::int64_t passes, const ReadSample& read);

  const Recipe& recipe() const { return recipe_; }
  /// This rank's parts of the model.
  const model::Stages& stages() const { return stages_; }
  /// The model, where it is not cut into stages.
  const model::Gpt& model() const { return stages_.whole(); }

 private:
  Pass read_pass(std::int64_t first_sample, bool data, const ReadSample& read) const;
  double run_pass(const Pass& pass);
  std::int64_t passes() const { return recipe_.batch / recipe_.micro_batch; }
  double run_passes(optim::AdamW::Step& step, const ReadPass& read);
  double run_pipeline(optim::AdamW::Step& step, const ReadPass& read);
  ReadPass reader(std::int64_t number, const ReadSample& read) const;

  const Mesh* mesh_;
  Recipe recipe_;
  model::Stages stages_;
  tensor::GatherPlan gathers_;  // of a pass, or of all passes of a step if there is a pipeline
  optim::AdamW optimizer_;
  Pipeline pipeline_;
};

/// 6 flops for every token and parameter that is used in products, and 12 for every token, layer,
/// column and position of attention: the field's usual count. Recomputation does not count.
Flops model_flops(const model::GptSpec& spec, std::int64_t tokens);

}  // namespace fourfold::train
