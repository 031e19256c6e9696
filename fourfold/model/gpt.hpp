// A GPT of the architecture of GPT-2, on any grid. Its parameters have the names that they have in
// Hugging Face's model, but not the shapes: weights are out × in, and the rows of c_attn are
// ordered [head][q|k|v].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fourfold/model/block.hpp"
#include "fourfold/nn/positions.hpp"

namespace fourfold::model {

/// A stage of the pipeline: some of the blocks. The first stage also has the embedding, and the
/// last stage the head.
struct Stage {
  grid::Range blocks;
  bool first = true;
  bool last = true;

  static Stage whole(const GptSpec& spec) { return {.blocks = {0, spec.layers}}; }
};

class Gpt {
 public:
  /// `samples` is the number of sequences of a forward pass over the whole grid. Throws ConfigError
  /// that says what to change when the model does not fit the grid.
  Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples, const Stage& stage);
  /// Makes the whole model.
  Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples)
      : Gpt(mesh, spec, samples, Stage::whole(spec)) {}
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  /// The logits of the tokens of this rank's samples (samples × context, the same on all ranks
  /// along x and y). With SUMMA, a rank has the rows of its y only. The columns are split over
  /// `logit_axes`.
  Tensor logits(const Tensor& tokens, const nn::Batch& batch, bool training) const;

  /// This rank's part of the mean loss of the batch: see nn::cross_entropy. The sum is divided by
  /// `tokens_of_step`.
  Tensor loss(const Tensor& tokens, const Tensor& targets, const nn::Batch& batch,
              std::int64_t tokens_of_step, bool training) const;

  /// A pass through a stage. `hidden` are the hidden states of the parts of the batch that the
  /// previous stage returned; on the first stage it is empty. The result is the hidden states for
  /// the next stage, or on the last stage the loss.
  std::vector<Tensor> pass(const std::vector<Tensor>& hidden, const Tensor& tokens,
                           const Tensor& targets, const nn::Batch& batch,
                           std::int64_t tokens_of_step, bool training) const;
  /// Memory for the hidden state of a part of a batch.
  Tensor empty_hidden(const nn::Batch& part) const;

  const GptSpec& spec() const { return spec_; }
  const Stage& stage() const { return stage_; }
  /// The table of tokens, if the stage uses it. On a last stage that is not the first, the table is
  /// a copy of the first stage's parameter, and this stage does not own it.
  nn::ParameterPtr table() const { return tokens_ ? tokens_->parameter() : nullptr; }
  /// The parameters before the first block, and the other parameters, in the order of use.
  nn::Parameters embedding_parameters() const;
  nn::Parameters block_parameters() const;
  /// All parameters.
  nn::Parameters parameters() const;
  /// What is gathered for each use, for `GatherPlan`.
  tensor::GatherOrder gatherables() const;
  /// The axes along which ranks have different rows, and so different parts of the loss.
  grid::Axes loss_axes() const;
  /// Whether this rank's part of the loss counts. Along the other axes all ranks have the same
  /// part.
  bool counts_loss() const;
  /// The axes that split the columns of the logits.
  grid::Axes logit_axes() const;
  /// The number of parts in which a batch goes through the model. It is two, each of which overlaps
  /// the other's communication, if there is communication and the samples of a rank can be halved;
  /// else one.
  int parts_of(const nn::Batch& batch) const;

 private:
  class Pass;
  /// Throws ConfigError unless a batch of this size can be split over the ranks.
  void check(const nn::Batch& batch) const;
  /// The table that is used for the logits.
  const nn::VocabularyTable& head_table() const { return head_ ? *head_ : *tokens_; }
  /// The rows of `samples` whose logits this rank has. `samples` are the same along x and y.
  Tensor rows_here(const Tensor& samples) const;
  nn::Flow<Tensor> embed(Tensor tokens, nn::Batch batch, bool training) const;
  nn::Flow<Tensor> head(Tensor hidden, Pass& pass) const;
  nn::Flow<Tensor> body(Tensor input, nn::Batch batch, bool training, Pass& pass) const;
  nn::Flow<Tensor> logits_flow(Tensor tokens, nn::Batch batch, bool training, Pass& pass) const;
  nn::Flow<Tensor> loss_of_head(Tensor hidden, Tensor targets, Pass& pass) const;
  nn::Flow<Tensor> stage_flow(Tensor input, Tensor targets, nn::Batch batch, bool training,
                              Pass& pass) const;
  std::vector<Tensor> checkpointed(std::vector<Tensor> inputs, const std::vector<Tensor>& targets,
                                   const std::vector<nn::Batch>& parts, bool training,
                                   Pass& pass) const;

  const Mesh* mesh_;
  GptSpec spec_;
  Stage stage_;
  std::unique_ptr<nn::VocabularyTable> tokens_;  // of the first stage, and of the last if tied
  std::unique_ptr<nn::Positions> positions_;     // of the first stage
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<nn::LayerNorm> norm_;  // this and the following are of the last stage
  std::unique_ptr<nn::Vectors> vectors_;
  std::unique_ptr<nn::VocabularyTable> head_;  // null if tied
};

}  // namespace fourfold::model
