// Training steps of a model: a step reads batches, changes the parameters and returns loss and
// norm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "fourfold/optim/adamw.hpp"
#include "fourfold/optim/learning_rate.hpp"
#include "fourfold/train/gather_names.hpp"
#include "fourfold/train/not_finite.hpp"
#include "fourfold/train/pipeline.hpp"

namespace fourfold::train {

/// What is trained, and how.
struct Recipe {
  model::ModelPtr model;
  std::int64_t batch = 0;        ///< samples of a step, over the whole grid
  std::int64_t micro_batch = 0;  ///< samples of a forward pass; divides the batch
  int chunks = 1;                ///< stages of the pipeline on each rank
  /// The blocks of each stage of the pipeline; empty: stages are balanced.
  std::vector<std::int64_t> stage_blocks = {};
  optim::AdamWSpec optimizer;
  optim::LearningRate learning_rate;
  double clip = 0;  ///< the largest global norm of the gradients; 0: no limit
  /// A step whose loss or gradient is not finite leaves out its update, and the next one follows.
  bool skip_bad_steps = false;
  tensor::Overlap overlap;  ///< for the mesh of the training
  /// Shared by trainings of the same model, so that each need not learn its order of gathers; may
  /// be null.
  std::shared_ptr<GatherNames> gather_names = {};
};

/// Says which passes do not divide the batch, or which settings cannot be combined with a pipeline
/// of `places` places. Empty if all is well.
std::string recipe_misfit(const Recipe& recipe, int places);
/// Throws it as ConfigError.
void check_recipe(const Recipe& recipe, int places);

/// Writes a sample: one tensor for each kind of the model's data (Model::empty_data), without the
/// dimension of samples.
using ReadSample = std::function<void(std::int64_t sample, std::span<const Tensor> data)>;

/// Reads samples of a model of tokens: writes the tokens of a sample, and for each token the one
/// that follows it.
using ReadTokens =
    std::function<void(std::int64_t sample, std::int64_t* tokens, std::int64_t* targets)>;
ReadSample read_tokens(ReadTokens read);

/// What a rank asks all ranks to do after a step. Votes travel with the loss.
struct Votes {
  bool save = false;
  bool stop = false;  ///< after saving
};

struct StepResult {
  double loss = 0;  ///< the mean over the samples of the step
  double grad_norm = 0;
  double rate = 0;
  Votes votes = {};  ///< what any rank has asked for: the same on all ranks
  /// Why the parameters and the optimizer's state are as they were, for the user; empty if the step
  /// has changed them. The same on all ranks.
  std::string left_out = {};
};

class Trainer {
 public:
  /// Throws ConfigError that says what to change when the model does not fit the grid. `fill` may
  /// replace the random initial values of the parameters.
  Trainer(const Mesh& mesh, const Recipe& recipe,
          const std::function<void(const model::Part&)>& fill = {});

  /// Runs step 1, 2, ...: its samples begin with number (number - 1) * batch. On a dry mesh nothing
  /// is read, and the result is meaningless.
  ///
  /// When the loss or a gradient is not finite, no parameter changes. The passes run a second time,
  /// to find the layer, rank and sample where it begins, and whether it happens again. Then all
  /// ranks throw an Error that says so; or, if the recipe skips such steps, `StepResult::left_out`
  /// says it. A parameter that is not finite is always an Error.
  ///
  /// `before_update`, if given, is called when all gradients are known to be finite.
  StepResult step(std::int64_t number, const ReadSample& read, const Votes& votes = {},
                  const std::function<void()>& before_update = {});

  /// What this rank keeps of the weights and of the optimizer's state, between steps. When all of
  /// `state(optim::StateOf::kOwn)` was replaced, all ranks must call `restored`.
  std::vector<optim::StatePiece> state(optim::StateOf which) { return optimizer_.state(which); }
  void restored();

  /// Sends the values of all parameters as the end of a step does. A first step after this call
  /// is like all later ones, which wait for such values.
  void send_values();

  /// Waits for operations that the last step has left under way. The next step would wait for them,
  /// too.
  void finish();

  /// The mean loss of the samples 0 to passes * micro_batch, without dropout.
  double validate(std::int64_t passes, const ReadSample& read);

  /// Runs `passes` forward passes that are like `batch` through all stages, without a graph: `run`
  /// is called for each stage of this rank. Collective.
  void run_forward(const nn::Batch& batch, std::int64_t passes, const RunStage& run);

  /// Calls `use` while the parameters have the running means of their values. The recipe's
  /// optimizer must keep them. Collective.
  void with_mean_values(const std::function<void()>& use);

  const Recipe& recipe() const { return recipe_; }
  /// This rank's parts of the model.
  const model::Stages& stages() const { return stages_; }
  /// The model, if it is not cut into stages.
  const model::Part& model() const { return stages_.whole(); }

 private:
  /// The passes of a step, and its update if all numbers are finite.
  struct Attempt {
    StepResult result;
    std::optional<NotFinite> bad;
  };
  Attempt attempt(std::int64_t number, const ReadSample& read, const Votes& votes,
                  const std::function<void(optim::AdamW::Step&, const StepResult&)>& update);
  StepResult end_bad_step(std::int64_t number, const ReadSample& read, const Attempt& first);

  model::Input read_input(std::int64_t first_sample, bool data, const ReadSample& read) const;
  Tensor run_pass(tensor::InFlight& in_flight, const model::Input& input, std::int64_t micro_batch);
  std::int64_t passes() const { return recipe_.batch / recipe_.micro_batch; }
  Tensor run_passes(tensor::InFlight& in_flight, optim::AdamW::Step& step, const ReadInput& read);
  Tensor run_pipeline(tensor::InFlight& in_flight, optim::AdamW::Step& step, const ReadInput& read);
  ReadInput reader(std::int64_t number, const ReadSample& read) const;

  const Mesh* mesh_;
  Recipe recipe_;
  model::Stages stages_;
  tensor::GatherPlan gathers_;  // of a pass, or with a pipeline of all passes of a step
  optim::AdamW optimizer_;
  Pipeline pipeline_;
};

}  // namespace fourfold::train
