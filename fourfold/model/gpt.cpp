// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/gpt.hpp"

#include <map>

#include "fourfold/base/check.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/loss.hpp"

namespace fourfold::model {

using grid::Axis;
using nn::Batch;

namespace {

nn::TableSpec table_spec(const GptSpec& spec, const std::string& name) {
  return {.name = name,
          .vocabulary = spec.vocabulary,
          .width = spec.width,
          .activations = spec.activations};
}

/// Returns the spec if the model fits the grid. This is checked before anything is made.
const GptSpec& checked(const Mesh& mesh, const GptSpec& spec, std::int64_t samples) {
  const auto positive = [](const char* name, std::int64_t value) {
    if (value < 1)
      throw ConfigError(concat("the model's ", name, " must be at least 1, not ", value));
  };
  positive("vocabulary", spec.vocabulary);
  positive("width", spec.width);
  positive("heads", spec.heads);
  positive("layers", spec.layers);
  positive("context", spec.context);
  if (spec.width % spec.heads != 0) {
    throw ConfigError(
        concat("a width of ", spec.width, " is not a multiple of ", spec.heads, " heads"));
  }
  if (!(spec.dropout >= 0 && spec.dropout < 1)) {
    throw ConfigError(concat("a dropout of ", spec.dropout, " is not between 0 and 1"));
  }
  if (spec.algorithm == nn::Algorithm::kSumma) check_summa(mesh, spec, samples);
  nn::check_batch(mesh, {.samples = samples, .context = spec.context}, spec.activations);
  static_cast<void>(attention_split(mesh, spec, samples));
  return spec;
}

}  // namespace

Gpt::Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples, const Stage& stage)
    : mesh_(&mesh), spec_(checked(mesh, spec, samples)), stage_(stage) {
  const auto make_table = [&](const char* name) {
    return nn::make_table(spec.algorithm, mesh, table_spec(spec, name), spec.precision, spec.seed);
  };
  if (stage.first || (stage.last && spec.tied)) tokens_ = make_table("wte");
  if (stage.first) {
    positions_ = std::make_unique<nn::Positions>(mesh, "wpe", spec.context, spec.width,
                                                 spec.activations, spec.precision, spec.seed);
  }
  const AttentionSplit split = attention_split(mesh, spec, samples);
  for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
    blocks_.push_back(std::make_unique<Block>(mesh, spec, i, split));
  }
  if (!stage.last) return;
  norm_ = std::make_unique<nn::LayerNorm>(mesh, "ln_f", spec.width, spec.activations,
                                          spec.precision, spec.seed);
  vectors_ = std::make_unique<nn::Vectors>(mesh, nn::Parameters{norm_->scale(), norm_->shift()});
  if (!spec.tied) head_ = make_table("lm_head");
}

nn::Parameters Gpt::embedding_parameters() const {
  if (!stage_.first) return {};
  return {tokens_->parameter(), positions_->parameter()};
}

nn::Parameters Gpt::parameters() const {
  nn::Parameters all = embedding_parameters();
  const nn::Parameters more = block_parameters();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

nn::Parameters Gpt::block_parameters() const {
  nn::Parameters all;
  for (const auto& block : blocks_) {
    const nn::Parameters more = block->parameters();
    all.insert(all.end(), more.begin(), more.end());
  }
  if (!stage_.last) return all;
  all.push_back(norm_->scale());
  all.push_back(norm_->shift());
  if (head_) all.push_back(head_->parameter());
  return all;
}

tensor::GatherOrder Gpt::gatherables() const {
  tensor::GatherOrder all;
  if (tokens_) all.push_back(tokens_->parameter().get());
  if (positions_) all.push_back(positions_->parameter().get());
  if (vectors_) all.push_back(vectors_.get());
  for (const auto& block : blocks_) {
    const tensor::GatherOrder more = block->gatherables();
    all.insert(all.end(), more.begin(), more.end());
  }
  if (head_) all.push_back(head_->parameter().get());
  return all;
}

/// One forward pass: what its parts share.
class Gpt::Pass {
 public:
  explicit Pass(std::int64_t tokens = 1) : tokens_(tokens) {}

  /// The number of tokens that the sum of the losses is divided by.
  std::int64_t tokens() const { return tokens_; }

  /// The vectors, gathered when the first part needs them.
  const std::vector<Tensor>& gathered(const nn::Vectors& vectors) {
    std::vector<Tensor>& all = gathered_[&vectors];
    if (all.empty()) all = vectors.gather();
    return all;
  }

 private:
  std::int64_t tokens_;
  std::map<const nn::Vectors*, std::vector<Tensor>> gathered_;
};

grid::Axes Gpt::loss_axes() const {
  if (spec_.algorithm == nn::Algorithm::kSumma) return {Axis::kData, Axis::kZ, Axis::kY};
  return {Axis::kData, Axis::kZ};
}

grid::Axes Gpt::logit_axes() const {
  if (spec_.algorithm == nn::Algorithm::kSumma) return Axis::kX;
  return {Axis::kY, Axis::kX};
}

bool Gpt::counts_loss() const {
  return mesh_->index(logit_axes()) == 0;
}

Tensor Gpt::rows_here(const Tensor& samples) const {
  if (spec_.algorithm != nn::Algorithm::kSumma) return samples;
  const std::int64_t count = samples.size(0) / mesh_->size(Axis::kY);
  return samples.narrow(0, mesh_->index(Axis::kY) * count, count);
}

int Gpt::parts_of(const Batch& batch) const {
  // SUMMA overlaps its communication with its own products.
  if (spec_.algorithm == nn::Algorithm::kSumma) return 1;
  const bool communicates = mesh_->size({Axis::kX, Axis::kY}) > 1;
  if (!mesh_->overlap().halves || !communicates || nn::local_samples(*mesh_, batch) < 2) return 1;
  const bool by_heads = spec_.heads % mesh_->size({Axis::kX, Axis::kY}) == 0;
  for (int part = 0; part < 2; ++part) {
    const std::int64_t samples = nn::local_samples(*mesh_, nn::part_of(batch, part, 2));
    if (!by_heads && samples % mesh_->size(Axis::kX) != 0) return 1;
    if (spec_.activations == nn::Activations::kReplicated) continue;
    const std::int64_t rows = samples * batch.context;
    if (rows % mesh_->size(Axis::kX) != 0 || rows % mesh_->size(Axis::kY) != 0) return 1;
  }
  return 2;
}

void Gpt::check(const Batch& batch) const {
  if (spec_.algorithm == nn::Algorithm::kSumma) check_summa(*mesh_, spec_, batch.samples);
  nn::check_batch(*mesh_, batch, spec_.activations);
}

nn::Flow<Tensor> Gpt::embed(Tensor tokens, Batch batch, bool training) const {
  const Tensor rows = co_await tokens_->lookup_flow(tokens);
  Tensor hidden = positions_->add_to(rows, batch);
  if (training) {
    const std::int64_t first = mesh_->index(Axis::kX) * hidden.size(1);
    hidden = nn::dropout(
        *mesh_, hidden, spec_.dropout,
        kernels::key_of(kernels::key_of(spec_.seed, "drop"), batch.step),
        {nn::hidden_rows(*mesh_, batch, spec_.activations), {first, first + hidden.size(1)}},
        "drop");
  }
  co_return hidden;
}

nn::Flow<Tensor> Gpt::head(Tensor hidden, Pass& pass) const {
  const std::vector<Tensor> vectors = pass.gathered(*vectors_);
  const Tensor normal = co_await norm_->flow(hidden, vectors[0], vectors[1]);
  co_return co_await head_table().logits_flow(normal);
}

/// Passes tokens or a hidden state through the embedding, if this stage has it, and all blocks of
/// the stage.
nn::Flow<Tensor> Gpt::body(Tensor input, Batch batch, bool training, Pass& pass) const {
  Tensor hidden = std::move(input);
  // This is no conditional expression: in one, g++ 12 frees an awaited temporary too early.
  if (stage_.first) hidden = co_await embed(hidden, batch, training);
  for (const auto& block : blocks_) {
    hidden = co_await block->flow(hidden, pass.gathered(block->vectors()), batch, training);
  }
  co_return hidden;
}

nn::Flow<Tensor> Gpt::logits_flow(Tensor tokens, Batch batch, bool training, Pass& pass) const {
  const Tensor hidden = co_await body(tokens, batch, training, pass);
  co_return co_await head(hidden, pass);
}

Tensor Gpt::logits(const Tensor& tokens, const Batch& batch, bool training) const {
  check(batch);
  FOURFOLD_CHECK(stage_.first && stage_.last, "the logits of a part of the model");
  FOURFOLD_CHECK_EQ(tokens.numel(), nn::local_samples(*mesh_, batch) * batch.context);
  Pass pass;
  return nn::run(logits_flow(tokens, batch, training, pass));
}

nn::Flow<Tensor> Gpt::loss_of_head(Tensor hidden, Tensor targets, Pass& pass) const {
  const Tensor logits = co_await head(hidden, pass);
  co_return co_await nn::cross_entropy_flow(*mesh_, head_table(), logits, rows_here(targets),
                                            pass.tokens());
}

nn::Flow<Tensor> Gpt::stage_flow(Tensor input, Tensor targets, Batch batch, bool training,
                                 Pass& pass) const {
  const Tensor hidden = co_await body(std::move(input), batch, training, pass);
  if (!stage_.last) co_return hidden;
  co_return co_await loss_of_head(hidden, targets, pass);
}

/// A block that is computed again is one node for all parts of the batch, which take turns inside
/// it.
std::vector<Tensor> Gpt::checkpointed(std::vector<Tensor> inputs,
                                      const std::vector<Tensor>& targets,
                                      const std::vector<Batch>& parts, bool training,
                                      Pass& pass) const {
  if (stage_.first) {
    std::vector<nn::Flow<Tensor>> starts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      starts.push_back(embed(inputs[i], parts[i], training));
    }
    inputs = nn::interleave(std::move(starts));
  }
  for (const auto& block : blocks_) inputs = block->checkpointed(inputs, parts, training);
  if (!stage_.last) return inputs;
  std::vector<nn::Flow<Tensor>> ends;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ends.push_back(loss_of_head(inputs[i], targets[i], pass));
  }
  inputs.clear();
  return nn::interleave(std::move(ends));
}

std::vector<Tensor> Gpt::pass(const std::vector<Tensor>& hidden, const Tensor& tokens,
                              const Tensor& targets, const Batch& batch,
                              std::int64_t tokens_of_step, bool training) const {
  check(batch);
  FOURFOLD_CHECK_EQ(batch.parts, 1, "a pass of a part of a batch");
  const int count = parts_of(batch);
  if (!stage_.first) FOURFOLD_CHECK_EQ(static_cast<int>(hidden.size()), count, "hidden states");
  Pass pass(tokens_of_step);
  std::vector<Batch> parts;
  std::vector<Tensor> inputs;
  std::vector<Tensor> part_targets;
  std::int64_t first = 0;
  for (int i = 0; i < count; ++i) {
    parts.push_back(nn::part_of(batch, i, count));
    const std::int64_t samples = nn::local_samples(*mesh_, parts.back());
    inputs.push_back(stage_.first ? tokens.narrow(0, first, samples)
                                  : hidden[static_cast<std::size_t>(i)]);
    part_targets.push_back(stage_.last ? targets.narrow(0, first, samples) : Tensor());
    first += samples;
  }
  std::vector<Tensor> results;
  if (spec_.checkpoint) {
    results = checkpointed(std::move(inputs), part_targets, parts, training, pass);
  } else {
    std::vector<nn::Flow<Tensor>> flows;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      flows.push_back(stage_flow(std::move(inputs[i]), part_targets[i], parts[i], training, pass));
    }
    results = nn::interleave(std::move(flows));
  }
  if (stage_.last && count == 2) results = {at::add(results[0], results[1])};
  return results;
}

Tensor Gpt::empty_hidden(const Batch& part) const {
  const std::int64_t rows = nn::hidden_rows(*mesh_, part, spec_.activations).size();
  return at::empty({rows, spec_.width / mesh_->size(Axis::kX)},
                   at::TensorOptions(spec_.precision.compute).device(mesh_->device()));
}

Tensor Gpt::loss(const Tensor& tokens, const Tensor& targets, const Batch& batch,
                 std::int64_t tokens_of_step, bool training) const {
  FOURFOLD_CHECK(stage_.first && stage_.last, "the loss of a part of the model");
  FOURFOLD_CHECK_EQ(tokens.numel(), nn::local_samples(*mesh_, batch) * batch.context);
  return pass({}, tokens, targets, batch, tokens_of_step, training)[0];
}

}  // namespace fourfold::model
