// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/transformer.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/loss.hpp"
#include "fourfold/tensor/node_watch.hpp"

namespace fourfold::model {

using grid::Axis;
using nn::Batch;
using nn::Pass;

// --- construction

Transformer::Transformer(const Mesh& mesh, const Frame& frame, TableNames names, const Stage& stage,
                         nn::HeadSplit split)
    : Part(mesh, stage), frame_(frame), names_(std::move(names)), split_(split) {
  if (stage.first || (stage.last && frame_.tied)) tokens_ = make_table(names_.tokens);
  if (stage.first) consists_of(*tokens_);
}

std::unique_ptr<nn::VocabularyTable> Transformer::make_table(const std::string& name) const {
  const Execution& how = frame_.execution;
  return nn::make_table(how.product, *mesh_, frame_.table_spec(name), how.precision, how.seed);
}

void Transformer::add_positions(std::unique_ptr<nn::Positions> positions) {
  positions_ = std::move(positions);
  consists_of(*positions_);
}

void Transformer::add_block(std::unique_ptr<Block> block) {
  blocks_.push_back(std::move(block));
  consists_of(*blocks_.back());
}

void Transformer::add_head(std::unique_ptr<nn::Norm> norm) {
  norm_ = std::move(norm);
  consists_of(*norm_);
  vectors_ = std::make_unique<nn::Vectors>(*mesh_, norm_->vectors());
  if (frame_.tied) return;
  head_ = make_table(names_.head);
  consists_of(*head_);
}

// --- lists

std::vector<nn::Parameters> Transformer::groups() const {
  nn::Parameters all = parameters();
  if (!stage().first) return {{}, all};
  const auto embedding = positions_ ? 2 : 1;
  return {{all.begin(), all.begin() + embedding}, {all.begin() + embedding, all.end()}};
}

nn::ParameterPtr Transformer::shared() const {
  return tokens_ && frame_.tied ? tokens_->parameter() : nullptr;
}

tensor::GatherOrder Transformer::gatherables() const {
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

double Transformer::flops(const Batch& batch) const {
  double sum = 0;
  for (const auto& block : blocks_) sum += block->flops(batch);
  if (stage().last) sum += head_table().flops(batch);
  return sum;
}

// --- layouts

grid::Axes Transformer::loss_axes() const {
  if (frame_.execution.product == nn::ProductKind::kSumma) {
    return {Axis::kData, Axis::kZ, Axis::kY};
  }
  return {Axis::kData, Axis::kZ};
}

grid::Axes Transformer::logit_axes() const {
  if (frame_.execution.product == nn::ProductKind::kSumma) return Axis::kX;
  return {Axis::kY, Axis::kX};
}

bool Transformer::counts_loss() const {
  return mesh_->index(logit_axes()) == 0;
}

Tensor Transformer::rows_here(const Tensor& samples) const {
  if (frame_.execution.product != nn::ProductKind::kSumma) return samples;
  const std::int64_t count = samples.size(0) / mesh_->size(Axis::kY);
  return samples.narrow(0, mesh_->index(Axis::kY) * count, count);
}

int Transformer::parts_of(const Batch& batch) const {
  // SUMMA overlaps its communication with its own products.
  if (frame_.execution.product == nn::ProductKind::kSumma) return 1;
  const bool communicates = mesh_->size({Axis::kX, Axis::kY}) > 1;
  if (!mesh_->overlap().halves || !communicates || nn::local_samples(*mesh_, batch) < 2) return 1;
  const bool by_heads = split_ == nn::HeadSplit::kHeads;
  for (int part = 0; part < 2; ++part) {
    const std::int64_t samples = nn::local_samples(*mesh_, nn::part_of(batch, part, 2));
    if (!by_heads && samples % mesh_->size(Axis::kX) != 0) return 1;
    if (frame_.execution.activations == nn::Activations::kReplicated) continue;
    const std::int64_t rows = samples * batch.context;
    if (rows % mesh_->size(Axis::kX) != 0 || rows % mesh_->size(Axis::kY) != 0) return 1;
  }
  return 2;
}

std::vector<Tensor> Transformer::empty_hidden(const Batch& part, End end) const {
  if (end == End::kInput ? stage().first : stage().last) return {};
  const Execution& how = frame_.execution;
  const std::int64_t rows = nn::hidden_rows(*mesh_, part, how.activations).size();
  return {at::empty({rows, frame_.width / mesh_->size(Axis::kX)},
                    at::TensorOptions(how.precision.compute).device(mesh_->device()))};
}

void Transformer::check(const Batch& batch) const {
  const std::string reason = frame_.misfit(sizes_of(*mesh_), batch.samples, batch.context);
  if (!reason.empty()) throw ConfigError(reason);
  const std::int64_t local = nn::local_samples(*mesh_, batch);
  if (split_ == nn::HeadSplit::kSamples && local % mesh_->size(Axis::kX) != 0) {
    throw ConfigError(concat("attention is split by samples here, and the ", local,
                             " samples of a rank cannot be split over x=", mesh_->size(Axis::kX)));
  }
}

// --- the way of a batch

void Transformer::show_hidden(const Tensor& hidden, const Batch& batch) const {
  const grid::Range rows = nn::hidden_rows(*mesh_, batch, frame_.execution.activations);
  tensor::show_rows(hidden, rows.begin, batch.context);
}

nn::Flow<Tensor> Transformer::embed(Tensor tokens, Batch batch, const Pass& pass) const {
  Tensor hidden = co_await tokens_->lookup_flow(tokens, pass);
  if (positions_) hidden = positions_->add_to(hidden, batch, pass);
  if (pass.training()) {
    const Execution& how = frame_.execution;
    const std::int64_t first = mesh_->index(Axis::kX) * hidden.size(1);
    hidden = nn::dropout(
        *mesh_, hidden, embedding_dropout_,
        kernels::key_of(kernels::key_of(how.seed, "drop"), batch.step),
        {nn::hidden_rows(*mesh_, batch, how.activations), {first, first + hidden.size(1)}}, "drop");
  }
  co_return hidden;
}

nn::Flow<Tensor> Transformer::logits_of(Tensor hidden, Pass& pass) const {
  pass.gather(*vectors_);
  const Tensor normal = co_await norm_->flow(hidden, pass);
  co_return co_await head_table().logits_flow(normal, pass);
}

/// Passes tokens or a hidden state through the embedding, if this stage has it, and all blocks of
/// the stage.
nn::Flow<Tensor> Transformer::body(Tensor input, Batch batch, Pass& pass) const {
  Tensor hidden = std::move(input);
  // This is no conditional expression: in one, g++ 12 frees an awaited temporary too early.
  if (stage().first) hidden = co_await embed(hidden, batch, pass);
  show_hidden(hidden, batch);
  for (const auto& block : blocks_) {
    pass.gather(block->bundle());
    hidden = co_await block->flow(hidden, batch, pass);
    show_hidden(hidden, batch);
  }
  co_return hidden;
}

nn::Flow<Tensor> Transformer::logits_flow(Tensor tokens, Batch batch, Pass& pass) const {
  const Tensor hidden = co_await body(tokens, batch, pass);
  co_return co_await logits_of(hidden, pass);
}

Tensor Transformer::logits(const Tensor& tokens, const Batch& batch, nn::KvCache& cache) const {
  const at::NoGradGuard no_graph;
  FOURFOLD_CHECK_EQ(batch.first_position, cache.length(), "the first new position");
  tensor::InFlight in_flight(*mesh_);
  Pass pass(in_flight);
  pass.continue_from(cache);
  Tensor result = logits(tokens, batch, pass);
  cache.advance(batch.context);
  return result;
}

Tensor Transformer::logits(const Tensor& tokens, const Batch& batch, Pass& pass) const {
  check(batch);
  FOURFOLD_CHECK(stage().first && stage().last, "the logits of a part of the model");
  FOURFOLD_CHECK_EQ(tokens.numel(), nn::local_samples(*mesh_, batch) * batch.context);
  return nn::run(logits_flow(tokens, batch, pass));
}

nn::Flow<Tensor> Transformer::loss_of(Tensor hidden, Tensor targets, Batch batch,
                                      std::int64_t terms, Pass& pass) const {
  const Tensor logits = co_await logits_of(hidden, pass);
  const bool summa = frame_.execution.product == nn::ProductKind::kSumma;
  const grid::Range rows =
      nn::row_range(*mesh_, batch, summa ? grid::Axes(Axis::kY) : grid::Axes());
  tensor::show_rows(logits, rows.begin, batch.context);
  co_return co_await nn::cross_entropy_flow(*mesh_, head_table(), logits, rows_here(targets),
                                            terms);
}

nn::Flow<Tensor> Transformer::stage_flow(Tensor input, Tensor targets, Batch batch,
                                         std::int64_t terms, Pass& pass) const {
  const Tensor hidden = co_await body(std::move(input), batch, pass);
  if (!stage().last) co_return hidden;
  co_return co_await loss_of(hidden, targets, batch, terms, pass);
}

/// A block that is computed again is one node for all parts of the batch, which take turns inside
/// it.
std::vector<Tensor> Transformer::checkpointed(std::vector<Tensor> inputs,
                                              const std::vector<Tensor>& targets,
                                              const std::vector<Batch>& parts, std::int64_t terms,
                                              Pass& pass) const {
  if (stage().first) {
    std::vector<nn::Flow<Tensor>> starts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      starts.push_back(embed(inputs[i], parts[i], pass));
    }
    inputs = nn::interleave(std::move(starts));
  }
  const auto show = [&] {
    for (std::size_t i = 0; i < parts.size(); ++i) show_hidden(inputs[i], parts[i]);
  };
  show();
  for (const auto& block : blocks_) {
    inputs = block->checkpointed(inputs, parts, pass);
    show();
  }
  if (!stage().last) return inputs;
  std::vector<nn::Flow<Tensor>> ends;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ends.push_back(loss_of(inputs[i], targets[i], parts[i], terms, pass));
  }
  inputs.clear();
  return nn::interleave(std::move(ends));
}

std::vector<Tensor> Transformer::run(const std::vector<Tensor>& hidden, const Input& input,
                                     std::int64_t terms, Pass& pass) const {
  const Batch& batch = input.batch;
  check(batch);
  FOURFOLD_CHECK_EQ(batch.parts, 1, "a pass of a part of a batch");
  const int count = parts_of(batch);
  if (stage().first || stage().last) {
    FOURFOLD_CHECK_EQ(input.data.size(), 2U, "tokens and targets");
    FOURFOLD_CHECK_EQ(input.data[0].numel(), nn::local_samples(*mesh_, batch) * batch.context);
  }
  if (!stage().first) FOURFOLD_CHECK_EQ(static_cast<int>(hidden.size()), count, "hidden states");
  std::vector<Batch> parts;
  std::vector<Tensor> inputs;
  std::vector<Tensor> targets;
  std::int64_t first = 0;
  for (int i = 0; i < count; ++i) {
    parts.push_back(nn::part_of(batch, i, count));
    const std::int64_t samples = nn::local_samples(*mesh_, parts.back());
    inputs.push_back(stage().first ? input.data[0].narrow(0, first, samples)
                                   : hidden[static_cast<std::size_t>(i)]);
    targets.push_back(stage().last ? input.data[1].narrow(0, first, samples) : Tensor());
    first += samples;
  }
  std::vector<Tensor> results;
  if (frame_.execution.checkpoint) {
    results = checkpointed(std::move(inputs), targets, parts, terms, pass);
  } else {
    std::vector<nn::Flow<Tensor>> flows;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      flows.push_back(stage_flow(std::move(inputs[i]), targets[i], parts[i], terms, pass));
    }
    results = nn::interleave(std::move(flows));
  }
  if (stage().last && count == 2) results = {at::add(results[0], results[1])};
  return results;
}

}  // namespace fourfold::model
