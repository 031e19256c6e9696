// A transformer that predicts the next token, as a whole or as a stage of a pipeline: a table of
// tokens, blocks, a norm, and logits with the same table or another one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "fourfold/model/block.hpp"
#include "fourfold/model/model.hpp"
#include "fourfold/nn/head_split.hpp"
#include "fourfold/nn/norm.hpp"
#include "fourfold/nn/positions.hpp"

namespace fourfold::model {

/// What transformers of all kinds have. The description of a kind adds its own values to it.
struct Frame {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 0;
  std::int64_t context = 0;  ///< of training
  bool tied = true;          ///< the head uses the table of the embedding
  Execution execution = {};

  nn::TableSpec table_spec(const std::string& name) const;
  /// Throws ConfigError that names the first value that no model can have.
  void check() const;
  /// Why a batch of sequences of `positions` tokens, or the pipeline, does not fit a grid.
  std::string misfit(const grid::Sizes& sizes, std::int64_t samples, std::int64_t positions) const;
  /// How the hidden state is spread between blocks.
  nn::Spread between_blocks() const;
};

/// The names of the two tables of a transformer.
struct TableNames {
  std::string tokens;
  std::string head;  ///< the head's own table, if it has one
};

/// The description of a model whose samples are sequences of tokens, with the tokens that follow
/// them as targets.
class TokenModel : public Model {
 public:
  std::string sizes() const override;
  const Execution& execution() const override { return frame().execution; }
  std::vector<std::pair<std::string, std::string>> traits() const override;
  std::int64_t blocks() const override { return frame().layers; }
  nn::Batch batch(std::int64_t samples) const override {
    return {.samples = samples, .context = frame().context};
  }
  std::vector<Tensor> empty_data(std::int64_t samples, c10::Device device) const override;
  void check_data(const std::vector<Tensor>& data) const override;
  std::int64_t terms(std::int64_t samples) const override { return samples * frame().context; }

  virtual const Frame& frame() const = 0;
};

class Transformer : public Part {
 public:
  /// The logits of the tokens of this rank's samples (samples × context, the same on all ranks
  /// along x and y). With SUMMA, a rank has the rows of its y only. The columns are split over
  /// `logit_axes`.
  Tensor logits(const Tensor& tokens, const nn::Batch& batch, nn::Pass& pass) const;

  /// The same, without a graph, for tokens that follow those whose keys and values are in `cache`.
  /// Adds theirs.
  Tensor logits(const Tensor& tokens, const nn::Batch& batch, nn::KvCache& cache) const;

  std::vector<Tensor> run(const std::vector<Tensor>& hidden, const Input& input, std::int64_t terms,
                          nn::Pass& pass) const override;
  int parts_of(const nn::Batch& batch) const override;
  std::vector<Tensor> empty_hidden(const nn::Batch& part, End end) const override;

  std::vector<nn::Parameters> groups() const override;
  nn::ParameterPtr shared() const override;
  tensor::GatherOrder gatherables() const override;
  bool counts_loss() const override;
  double flops(const nn::Batch& batch) const override;
  double block_flops(std::int64_t block, const nn::Batch& batch) const override {
    return blocks_.at(static_cast<std::size_t>(block - stage().blocks.begin))->flops(batch);
  }

  const Frame& frame() const { return frame_; }
  /// Whether there is a table of positions, which limits the length of texts.
  bool has_positions() const { return positions_ != nullptr; }
  /// The axes along which ranks have different rows, and so different parts of the loss.
  grid::Axes loss_axes() const;
  /// The axes that split the columns of the logits.
  grid::Axes logit_axes() const;

 protected:
  /// Makes the table of tokens. A derived class then adds what comes between table and head, in the
  /// order of use.
  Transformer(const Mesh& mesh, const Frame& frame, TableNames names, const Stage& stage,
              nn::HeadSplit split);
  nn::HeadSplit head_split() const { return split_; }
  /// In training, sets this share of the embedding to zero.
  void drop_embedding(double share) { embedding_dropout_ = share; }
  void add_positions(std::unique_ptr<nn::Positions> positions);
  void add_block(std::unique_ptr<Block> block);
  /// Adds the norm after the blocks and the head. Only on the last stage.
  void add_head(std::unique_ptr<nn::Norm> norm);

 private:
  /// Throws ConfigError unless a batch of this size can be split over the ranks.
  void check(const nn::Batch& batch) const;
  /// The table that is used for the logits.
  const nn::VocabularyTable& head_table() const { return head_ ? *head_ : *tokens_; }
  /// The rows of `samples` whose logits this rank has. `samples` are the same along x and y.
  Tensor rows_here(const Tensor& samples) const;
  std::unique_ptr<nn::VocabularyTable> make_table(const std::string& name) const;
  /// Says which samples the rows of a hidden state belong to.
  void show_hidden(const Tensor& hidden, const nn::Batch& batch) const;
  nn::Flow<Tensor> embed(Tensor tokens, nn::Batch batch, const nn::Pass& pass) const;
  nn::Flow<Tensor> logits_of(Tensor hidden, nn::Pass& pass) const;
  nn::Flow<Tensor> body(Tensor input, nn::Batch batch, nn::Pass& pass) const;
  nn::Flow<Tensor> logits_flow(Tensor tokens, nn::Batch batch, nn::Pass& pass) const;
  nn::Flow<Tensor> loss_of(Tensor hidden, Tensor targets, nn::Batch batch, std::int64_t terms,
                           nn::Pass& pass) const;
  nn::Flow<Tensor> stage_flow(Tensor input, Tensor targets, nn::Batch batch, std::int64_t terms,
                              nn::Pass& pass) const;
  std::vector<Tensor> checkpointed(std::vector<Tensor> inputs, const std::vector<Tensor>& targets,
                                   const std::vector<nn::Batch>& parts, std::int64_t terms,
                                   nn::Pass& pass) const;

  Frame frame_;
  TableNames names_;
  nn::HeadSplit split_;
  double embedding_dropout_ = 0;
  std::unique_ptr<nn::VocabularyTable> tokens_;  // of the first stage, and of the last if tied
  std::unique_ptr<nn::Positions> positions_;     // of the first stage, if the kind has it
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<nn::Norm> norm_;  // this and the following are of the last stage
  std::unique_ptr<nn::Vectors> vectors_;
  std::unique_ptr<nn::VocabularyTable> head_;  // null if tied
};

}  // namespace fourfold::model
