// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/gpt.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/loss.hpp"

namespace fourfold::model {

using grid::Axis;
using nn::Batch;

namespace {

nn::TableSpec table(const GptSpec& spec, const std::string& name, int uses) {
  return {.name = name,
          .vocabulary = spec.vocabulary,
          .width = spec.width,
          .activations = spec.activations,
          .uses = uses};
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
  nn::check_batch(mesh, {.samples = samples, .context = spec.context}, spec.activations);
  static_cast<void>(attention_split(mesh, spec, samples));
  return spec;
}

}  // namespace

Gpt::Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples)
    : mesh_(&mesh),
      spec_(checked(mesh, spec, samples)),
      tokens_(mesh, table(spec, "wte", spec.tied ? 2 : 1), spec.precision, spec.seed),
      positions_(mesh, "wpe", spec.context, spec.width, spec.activations, spec.precision,
                 spec.seed),
      norm_(mesh, "ln_f", spec.width, spec.activations, spec.precision, spec.seed),
      vectors_({norm_.scale(), norm_.shift()}) {
  const AttentionSplit split = attention_split(mesh, spec, samples);
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    blocks_.push_back(std::make_unique<Block>(mesh, spec, i, split));
  }
  if (!spec.tied) {
    head_ = std::make_unique<nn::TokenTable>(mesh, table(spec, "lm_head", 1), spec.precision,
                                             spec.seed);
  }
}

nn::Parameters Gpt::parameters() const {
  nn::Parameters all = {tokens_.parameter(), positions_.parameter()};
  for (const auto& block : blocks_) {
    const nn::Parameters more = block->parameters();
    all.insert(all.end(), more.begin(), more.end());
  }
  all.push_back(norm_.scale());
  all.push_back(norm_.shift());
  if (head_) all.push_back(head_->parameter());
  return all;
}

Tensor Gpt::logits(const Tensor& tokens, const Batch& batch, bool training) const {
  nn::check_batch(*mesh_, batch, spec_.activations);
  FOURFOLD_CHECK_EQ(tokens.numel(), nn::local_samples(*mesh_, batch) * batch.context);
  Tensor hidden = positions_.add_to(tokens_.lookup(tokens), batch);
  if (training) {
    const std::int64_t first = mesh_->index(Axis::kX) * hidden.size(1);
    hidden = nn::dropout(
        *mesh_, hidden, spec_.dropout,
        tensor::key_of(tensor::key_of(spec_.seed, "drop"), batch.step),
        {nn::hidden_rows(*mesh_, batch, spec_.activations), {first, first + hidden.size(1)}});
  }
  for (const auto& block : blocks_) hidden = block->forward(hidden, batch, training);
  const std::vector<Tensor> vectors = vectors_.gather();
  hidden = norm_.forward(hidden, vectors[0], vectors[1]);
  return (head_ ? *head_ : tokens_).logits(hidden);
}

Tensor Gpt::loss(const Tensor& tokens, const Tensor& targets, const Batch& batch,
                 std::int64_t tokens_of_step, bool training) const {
  const nn::TokenTable& table = head_ ? *head_ : tokens_;
  return nn::cross_entropy(*mesh_, table, logits(tokens, batch, training), targets, tokens_of_step);
}

}  // namespace fourfold::model
