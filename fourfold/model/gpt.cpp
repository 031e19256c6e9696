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

nn::TableSpec table(const GptSpec& spec, const std::string& name) {
  return {.name = name,
          .vocabulary = spec.vocabulary,
          .width = spec.width,
          .activations = spec.activations};
}

/// The spec, if the model fits the grid: before anything is made.
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

Gpt::Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples)
    : mesh_(&mesh),
      spec_(checked(mesh, spec, samples)),
      tokens_(nn::make_table(spec.algorithm, mesh, table(spec, "wte"), spec.precision, spec.seed)),
      positions_(mesh, "wpe", spec.context, spec.width, spec.activations, spec.precision,
                 spec.seed),
      norm_(mesh, "ln_f", spec.width, spec.activations, spec.precision, spec.seed),
      vectors_(mesh, {norm_.scale(), norm_.shift()}) {
  const AttentionSplit split = attention_split(mesh, spec, samples);
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    blocks_.push_back(std::make_unique<Block>(mesh, spec, i, split));
  }
  if (!spec.tied) {
    head_ = nn::make_table(spec.algorithm, mesh, table(spec, "lm_head"), spec.precision, spec.seed);
  }
}

nn::Parameters Gpt::embedding_parameters() const {
  return {tokens_->parameter(), positions_.parameter()};
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
  all.push_back(norm_.scale());
  all.push_back(norm_.shift());
  if (head_) all.push_back(head_->parameter());
  return all;
}

tensor::GatherOrder Gpt::gatherables() const {
  tensor::GatherOrder all = {tokens_->parameter().get(), positions_.parameter().get(), &vectors_};
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

  /// That the sum of the losses is divided by.
  std::int64_t tokens() const { return tokens_; }

  /// Gathered by the part that needs them first.
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
  // SUMMA hides its communication behind its own products.
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
  Tensor hidden = positions_.add_to(rows, batch);
  if (training) {
    const std::int64_t first = mesh_->index(Axis::kX) * hidden.size(1);
    hidden = nn::dropout(
        *mesh_, hidden, spec_.dropout,
        tensor::key_of(tensor::key_of(spec_.seed, "drop"), batch.step),
        {nn::hidden_rows(*mesh_, batch, spec_.activations), {first, first + hidden.size(1)}});
  }
  co_return hidden;
}

nn::Flow<Tensor> Gpt::head(Tensor hidden, Pass& pass) const {
  const std::vector<Tensor> vectors = pass.gathered(vectors_);
  const Tensor normal = co_await norm_.flow(hidden, vectors[0], vectors[1]);
  co_return co_await head_table().logits_flow(normal);
}

nn::Flow<Tensor> Gpt::logits_flow(Tensor tokens, Batch batch, bool training, Pass& pass) const {
  Tensor hidden = co_await embed(tokens, batch, training);
  for (const auto& block : blocks_) {
    hidden = co_await block->flow(hidden, pass.gathered(block->vectors()), batch, training);
  }
  co_return co_await head(hidden, pass);
}

Tensor Gpt::logits(const Tensor& tokens, const Batch& batch, bool training) const {
  check(batch);
  FOURFOLD_CHECK_EQ(tokens.numel(), nn::local_samples(*mesh_, batch) * batch.context);
  Pass pass;
  return nn::run(logits_flow(tokens, batch, training, pass));
}

nn::Flow<Tensor> Gpt::loss_of_head(Tensor hidden, Tensor targets, Pass& pass) const {
  const Tensor logits = co_await head(hidden, pass);
  co_return co_await nn::cross_entropy_flow(*mesh_, head_table(), logits, rows_here(targets),
                                            pass.tokens());
}

nn::Flow<Tensor> Gpt::loss_flow(Tensor tokens, Tensor targets, Batch batch, bool training,
                                Pass& pass) const {
  Tensor hidden = co_await embed(tokens, batch, training);
  for (const auto& block : blocks_) {
    hidden = co_await block->flow(hidden, pass.gathered(block->vectors()), batch, training);
  }
  co_return co_await loss_of_head(hidden, targets, pass);
}

/// A block that is computed again is one node for all parts, which take turns inside it.
std::vector<Tensor> Gpt::checkpointed_losses(const std::vector<Tensor>& tokens,
                                             const std::vector<Tensor>& targets,
                                             const std::vector<Batch>& parts, bool training,
                                             Pass& pass) const {
  std::vector<nn::Flow<Tensor>> starts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    starts.push_back(embed(tokens[i], parts[i], training));
  }
  std::vector<Tensor> hidden = nn::interleave(std::move(starts));
  for (const auto& block : blocks_) hidden = block->checkpointed(hidden, parts, training);
  std::vector<nn::Flow<Tensor>> ends;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ends.push_back(loss_of_head(hidden[i], targets[i], pass));
  }
  hidden.clear();
  return nn::interleave(std::move(ends));
}

Tensor Gpt::loss(const Tensor& tokens, const Tensor& targets, const Batch& batch,
                 std::int64_t tokens_of_step, bool training) const {
  check(batch);
  FOURFOLD_CHECK_EQ(tokens.numel(), nn::local_samples(*mesh_, batch) * batch.context);
  FOURFOLD_CHECK_EQ(batch.parts, 1, "the loss of a part of a batch");
  Pass pass(tokens_of_step);
  const int count = parts_of(batch);
  std::vector<Batch> parts;
  std::vector<Tensor> part_tokens;
  std::vector<Tensor> part_targets;
  std::int64_t first = 0;
  for (int i = 0; i < count; ++i) {
    parts.push_back(nn::part_of(batch, i, count));
    const std::int64_t samples = nn::local_samples(*mesh_, parts.back());
    part_tokens.push_back(tokens.narrow(0, first, samples));
    part_targets.push_back(targets.narrow(0, first, samples));
    first += samples;
  }
  std::vector<Tensor> losses;
  if (spec_.checkpoint) {
    losses = checkpointed_losses(part_tokens, part_targets, parts, training, pass);
  } else {
    std::vector<nn::Flow<Tensor>> flows;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      flows.push_back(loss_flow(part_tokens[i], part_targets[i], parts[i], training, pass));
    }
    losses = nn::interleave(std::move(flows));
  }
  return losses.size() == 1 ? losses[0] : at::add(losses[0], losses[1]);
}

}  // namespace fourfold::model
