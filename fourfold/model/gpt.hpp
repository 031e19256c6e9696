// A GPT of the architecture of GPT-2, on any grid. Its parameters have the names that they have in
// Hugging Face's model, but not the shapes: weights are out × in, and the rows of c_attn are
// ordered [head][q|k|v]. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fourfold/model/block.hpp"
#include "fourfold/nn/positions.hpp"

namespace fourfold::model {

class Gpt {
 public:
  /// `samples` is the number of sequences of a forward pass over the whole grid. Throws ConfigError
  /// that says what to change when the model does not fit the grid.
  Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples);
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  /// The logits of the tokens of this rank's samples (samples × context, the same on all ranks
  /// along x and y), or with SUMMA of its y's part of them; their columns are split over
  /// `logit_axes`.
  Tensor logits(const Tensor& tokens, const nn::Batch& batch, bool training) const;

  /// This rank's part of the mean loss of the batch: see nn::cross_entropy. `tokens_of_step` is the
  /// number that the sum is divided by.
  Tensor loss(const Tensor& tokens, const Tensor& targets, const nn::Batch& batch,
              std::int64_t tokens_of_step, bool training) const;

  const GptSpec& spec() const { return spec_; }
  /// Those before the first block, and the others, in the order of use.
  nn::Parameters embedding_parameters() const;
  nn::Parameters block_parameters() const;
  /// All of them.
  nn::Parameters parameters() const;
  /// What is brought together for its use, for `GatherPlan`.
  tensor::GatherOrder gatherables() const;
  /// The axes along which ranks have different rows, and so different parts of the loss.
  grid::Axes loss_axes() const;
  /// Whether this rank's part of the loss counts: along the other axes all have the same.
  bool counts_loss() const;
  /// Those that split the logits' columns.
  grid::Axes logit_axes() const;
  /// In how many parts a batch goes through the model: two that hide each other's communication, if
  /// there is any and the samples of a rank can be halved; else one.
  int parts_of(const nn::Batch& batch) const;

 private:
  class Pass;
  /// Throws ConfigError unless a batch of so many samples can be split.
  void check(const nn::Batch& batch) const;
  /// The table that the logits are products with.
  const nn::VocabularyTable& head_table() const { return head_ ? *head_ : *tokens_; }
  /// Of samples that are the same along x and y, those whose logits this rank has.
  Tensor rows_here(const Tensor& samples) const;
  nn::Flow<Tensor> embed(Tensor tokens, nn::Batch batch, bool training) const;
  nn::Flow<Tensor> head(Tensor hidden, Pass& pass) const;
  nn::Flow<Tensor> logits_flow(Tensor tokens, nn::Batch batch, bool training, Pass& pass) const;
  nn::Flow<Tensor> loss_of_head(Tensor hidden, Tensor targets, Pass& pass) const;
  nn::Flow<Tensor> loss_flow(Tensor tokens, Tensor targets, nn::Batch batch, bool training,
                             Pass& pass) const;
  std::vector<Tensor> checkpointed_losses(const std::vector<Tensor>& tokens,
                                          const std::vector<Tensor>& targets,
                                          const std::vector<nn::Batch>& parts, bool training,
                                          Pass& pass) const;

  const Mesh* mesh_;
  GptSpec spec_;
  std::unique_ptr<nn::VocabularyTable> tokens_;
  nn::Positions positions_;
  std::vector<std::unique_ptr<Block>> blocks_;
  nn::LayerNorm norm_;
  nn::Vectors vectors_;
  std::unique_ptr<nn::VocabularyTable> head_;  // null if tied
};

}  // namespace fourfold::model
