// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/block.hpp"

#include <cmath>

#include "fourfold/base/check.hpp"
#include "fourfold/nn/checkpoint.hpp"
#include "fourfold/nn/elementwise.hpp"

namespace fourfold::model {

using grid::Axis;
using nn::Activations;
using nn::Batch;
using nn::Spread;

namespace {

nn::LinearSpec linear(const std::string& name, std::int64_t in, std::int64_t out, bool transposed,
                      Spread input, Spread output, double deviation) {
  return {.name = name,
          .in = in,
          .out = out,
          .transposed = transposed,
          .input = input,
          .output = output,
          .deviation = deviation};
}

std::unique_ptr<nn::ProductLayer> make(const Mesh& mesh, const GptSpec& spec,
                                       const nn::LinearSpec& layer) {
  return nn::make_linear(spec.algorithm, mesh, layer, spec.precision, spec.seed);
}

/// How the hidden state is spread between blocks.
Spread between(const GptSpec& spec) {
  return spec.activations == Activations::kSharded ? Spread::kRows : Spread::kCopies;
}

Spread in_attention(AttentionSplit split) {
  return split == AttentionSplit::kHeads ? Spread::kColumns : Spread::kRows;
}

constexpr double kDeviation = 0.02;

/// The deviation of the layers that add to the hidden state. With it the variance of the hidden
/// state does not grow with the number of layers.
double residual_deviation(const GptSpec& spec) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(spec.layers));
}

}  // namespace

Block::Block(const Mesh& mesh, const GptSpec& spec, std::int64_t number, AttentionSplit split)
    : mesh_(&mesh),
      spec_(spec),
      name_(concat("h.", number)),
      attention_name_(name_ + ".attn"),
      network_name_(name_ + ".mlp"),
      split_(split),
      norm1_(mesh, name_ + ".ln_1", spec.width, spec.activations, spec.precision, spec.seed),
      qkv_(make(mesh, spec,
                linear(name_ + ".attn.c_attn", spec.width, 3 * spec.width, false, between(spec),
                       in_attention(split), kDeviation))),
      projection_(make(mesh, spec,
                       linear(name_ + ".attn.c_proj", spec.width, spec.width, true,
                              in_attention(split), between(spec), residual_deviation(spec)))),
      norm2_(mesh, name_ + ".ln_2", spec.width, spec.activations, spec.precision, spec.seed),
      up_(make(mesh, spec,
               linear(name_ + ".mlp.c_fc", spec.width, 4 * spec.width, false, between(spec),
                      between(spec), kDeviation))),
      down_(make(mesh, spec,
                 linear(name_ + ".mlp.c_proj", 4 * spec.width, spec.width, true, between(spec),
                        between(spec), residual_deviation(spec)))),
      vectors_(mesh, {norm1_.scale(), norm1_.shift(), qkv_->bias(), projection_->bias(),
                      norm2_.scale(), norm2_.shift(), up_->bias(), down_->bias()}) {}

nn::Parameters Block::parameters() const {
  return {norm1_.scale(),        norm1_.shift(),      qkv_->weight(),  qkv_->bias(),
          projection_->weight(), projection_->bias(), norm2_.scale(),  norm2_.shift(),
          up_->weight(),         up_->bias(),         down_->weight(), down_->bias()};
}

tensor::GatherOrder Block::gatherables() const {
  return {&vectors_, qkv_->weight().get(), projection_->weight().get(), up_->weight().get(),
          down_->weight().get()};
}

nn::AttentionShape Block::attention_shape(const Batch& batch, bool training) const {
  nn::AttentionShape shape;
  const std::int64_t local = nn::local_samples(*mesh_, batch);
  shape.first_sample = nn::first_local_sample(*mesh_, batch);
  if (split_ == AttentionSplit::kHeads) {
    shape.samples = local;
    shape.heads = spec_.heads / mesh_->size({Axis::kY, Axis::kX});
    shape.first_head = mesh_->index({Axis::kY, Axis::kX}) * shape.heads;
  } else if (split_ == AttentionSplit::kSquare) {
    shape.samples = local / mesh_->size(Axis::kY);
    shape.first_sample += mesh_->index(Axis::kY) * shape.samples;
    shape.heads = spec_.heads / mesh_->size(Axis::kX);
    shape.first_head = mesh_->index(Axis::kX) * shape.heads;
  } else {
    shape.samples = local / mesh_->size(Axis::kX);
    shape.first_sample += mesh_->index(Axis::kX) * shape.samples;
    shape.heads = spec_.heads / mesh_->size(Axis::kY);
    shape.first_head = mesh_->index(Axis::kY) * shape.heads;
  }
  shape.context = batch.context;
  shape.head_size = spec_.width / spec_.heads;
  shape.all_heads = spec_.heads;
  shape.dropout = training ? spec_.dropout : 0;
  shape.key = kernels::key_of(kernels::key_of(spec_.seed, attention_name_), batch.step);
  shape.layer = attention_name_;
  return shape;
}

Tensor Block::drop(const Tensor& hidden, const Batch& batch, const std::string& layer,
                   bool training) const {
  if (!training) return hidden;
  const std::int64_t columns = hidden.size(1);
  const std::int64_t first = mesh_->index(Axis::kX) * columns;
  return nn::dropout(*mesh_, hidden, spec_.dropout,
                     kernels::key_of(kernels::key_of(spec_.seed, layer + ".drop"), batch.step),
                     {nn::hidden_rows(*mesh_, batch, spec_.activations), {first, first + columns}},
                     layer);
}

nn::Turn Block::between_products() const {
  return nn::Turn{mesh_->size(Axis::kX) == 1};
}

nn::Flow<Tensor> Block::attend(Tensor hidden, const std::vector<Tensor>& v, const Batch& batch,
                               bool training) const {
  const Tensor normal = co_await norm1_.flow(hidden, v[0], v[1]);
  Tensor qkv = co_await qkv_->flow(normal, v[2]);
  const Tensor mixed = nn::causal_attention(*mesh_, qkv, attention_shape(batch, training));
  qkv = Tensor();
  co_await between_products();
  const Tensor out = co_await projection_->flow(mixed, v[3]);
  co_return drop(out, batch, attention_name_, training);
}

nn::Flow<Tensor> Block::expand(Tensor hidden, const std::vector<Tensor>& v, const Batch& batch,
                               bool training) const {
  const Tensor normal = co_await norm2_.flow(hidden, v[4], v[5]);
  Tensor wide = co_await up_->flow(normal, v[6]);
  wide = nn::gelu(*mesh_, wide, network_name_);
  co_await between_products();
  const Tensor out = co_await down_->flow(wide, v[7]);
  co_return drop(out, batch, network_name_, training);
}

nn::Flow<Tensor> Block::flow(Tensor hidden, std::vector<Tensor> vectors, Batch batch,
                             bool training) const {
  const Tensor mixed = co_await attend(hidden, vectors, batch, training);
  hidden = nn::residual(*mesh_, hidden, mixed, name_);
  const Tensor more = co_await expand(hidden, vectors, batch, training);
  co_return nn::residual(*mesh_, hidden, more, name_);
}

std::vector<Tensor> Block::checkpointed(const std::vector<Tensor>& hidden,
                                        const std::vector<Batch>& parts, bool training) const {
  std::vector<Tensor> inputs = hidden;
  const std::vector<Tensor> vectors = vectors_.gather();
  inputs.insert(inputs.end(), vectors.begin(), vectors.end());
  return nn::checkpoint(
      [this, parts, training](const std::vector<Tensor>& in) {
        const auto first_vector = in.begin() + static_cast<std::ptrdiff_t>(parts.size());
        std::vector<nn::Flow<Tensor>> flows;
        for (std::size_t i = 0; i < parts.size(); ++i) {
          flows.push_back(flow(in[i], {first_vector, in.end()}, parts[i], training));
        }
        return nn::interleave(std::move(flows));
      },
      inputs);
}

}  // namespace fourfold::model
