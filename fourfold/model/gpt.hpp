// A GPT of the architecture of GPT-2, on any grid. Its parameters have the names that they have in
// Hugging Face's model, but not the shapes: weights are out × in, and the rows of c_attn are
// ordered [head][q|k|v]. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fourfold/model/block.hpp"
#include "fourfold/nn/positions.hpp"
#include "fourfold/nn/token_table.hpp"

namespace fourfold::model {

class Gpt {
 public:
  /// `samples` is the number of sequences of a forward pass over the whole grid. Throws ConfigError
  /// that says what to change when the model does not fit the grid.
  Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples);
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  /// The logits of the tokens of this rank's samples (samples × context, the same on all ranks
  /// along x and y); their columns are split over y and x.
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
  /// In how many parts a batch goes through the model: two that hide each other's communication, if
  /// there is any and the samples of a rank can be halved; else one.
  int parts_of(const nn::Batch& batch) const;

 private:
  class Pass;
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
  nn::TokenTable tokens_;
  nn::Positions positions_;
  std::vector<std::unique_ptr<Block>> blocks_;
  nn::LayerNorm norm_;
  nn::Vectors vectors_;
  std::unique_ptr<nn::TokenTable> head_;  // null if tied
};

}  // namespace fourfold::model
