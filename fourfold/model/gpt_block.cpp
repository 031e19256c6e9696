// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/gpt_block.hpp"

#include <cmath>

#include "fourfold/base/check.hpp"
#include "fourfold/nn/elementwise.hpp"

namespace fourfold::model {

using grid::Axis;
using nn::Batch;
using nn::Pass;
using nn::Spread;

namespace {

constexpr double kDeviation = 0.02;

/// The deviation of the layers that add to the hidden state. With it the variance of the hidden
/// state does not grow with the number of layers.
double residual_deviation(const Frame& frame) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(frame.layers));
}

}  // namespace

GptProducts::GptProducts(const Frame& frame, const std::string& block, nn::HeadSplit split)
    : qkv{.name = block + ".attn.c_attn", .in = frame.width, .out = 3 * frame.width},
      projection{.name = block + ".attn.c_proj", .in = frame.width, .out = frame.width},
      up{.name = block + ".mlp.c_fc", .in = frame.width, .out = 4 * frame.width},
      down{.name = block + ".mlp.c_proj", .in = 4 * frame.width, .out = frame.width} {
  const Spread between = frame.between_blocks();
  const Spread inside = nn::spread_in_attention(split);
  qkv.input = up.input = down.input = between;
  projection.output = up.output = down.output = between;
  qkv.output = projection.input = inside;
  projection.transposed = down.transposed = true;
  qkv.deviation = up.deviation = kDeviation;
  projection.deviation = down.deviation = residual_deviation(frame);
}

GptBlock::GptBlock(const Mesh& mesh, const GptSpec& spec, std::int64_t number, nn::HeadSplit split)
    : Block(mesh, concat("h.", number)),
      spec_(spec),
      attention_name_(name() + ".attn"),
      network_name_(name() + ".mlp"),
      split_(split),
      products_(spec, name(), split_),
      norm1_(mesh, name() + ".ln_1", spec.width, spec.execution.activations,
             spec.execution.precision, spec.execution.seed),
      qkv_(make(products_.qkv)),
      projection_(make(products_.projection)),
      norm2_(mesh, name() + ".ln_2", spec.width, spec.execution.activations,
             spec.execution.precision, spec.execution.seed),
      up_(make(products_.up)),
      down_(make(products_.down)) {
  consists_of(norm1_);
  consists_of(*qkv_);
  consists_of(*projection_);
  consists_of(norm2_);
  consists_of(*up_);
  consists_of(*down_);
  bundle_vectors();
}

std::unique_ptr<nn::ProductLayer> GptBlock::make(const nn::LinearSpec& spec) const {
  const Execution& how = spec_.execution;
  return nn::make_linear(how.product, *mesh_, spec, how.precision, how.seed);
}

double GptBlock::flops(const Batch& batch) const {
  return Block::flops(batch) + nn::attention_flops(spec_.width, batch);
}

nn::AttentionShape GptBlock::attention_shape(const Batch& batch, bool training) const {
  nn::AttentionShape shape =
      nn::attention_shape(*mesh_, split_, spec_.heads, spec_.width / spec_.heads, batch);
  shape.dropout = training ? spec_.dropout : 0;
  shape.key = kernels::key_of(kernels::key_of(spec_.execution.seed, attention_name_), batch.step);
  shape.layer = attention_name_;
  return shape;
}

Tensor GptBlock::drop(const Tensor& hidden, const Batch& batch, const std::string& layer,
                      bool training) const {
  if (!training) return hidden;
  const Execution& how = spec_.execution;
  const std::int64_t columns = hidden.size(1);
  const std::int64_t first = mesh_->index(Axis::kX) * columns;
  return nn::dropout(*mesh_, hidden, spec_.dropout,
                     kernels::key_of(kernels::key_of(how.seed, layer + ".drop"), batch.step),
                     {nn::hidden_rows(*mesh_, batch, how.activations), {first, first + columns}},
                     layer);
}

nn::Turn GptBlock::between_products() const {
  return nn::Turn{mesh_->size(Axis::kX) == 1};
}

nn::Flow<Tensor> GptBlock::attend(Tensor hidden, const Batch& batch, const Pass& pass) const {
  const Tensor normal = co_await norm1_.flow(hidden, pass);
  Tensor qkv = co_await qkv_->flow(normal, pass);
  const nn::AttentionShape shape = attention_shape(batch, pass.training());
  const Tensor mixed = pass.cache() != nullptr
                           ? nn::cached_attention(*mesh_, qkv, shape, *pass.cache())
                           : nn::causal_attention(*mesh_, qkv, shape);
  qkv = Tensor();
  co_await between_products();
  const Tensor out = co_await projection_->flow(mixed, pass);
  co_return drop(out, batch, attention_name_, pass.training());
}

nn::Flow<Tensor> GptBlock::expand(Tensor hidden, const Batch& batch, const Pass& pass) const {
  const Tensor normal = co_await norm2_.flow(hidden, pass);
  Tensor wide = co_await up_->flow(normal, pass);
  wide = nn::gelu(*mesh_, wide, network_name_);
  co_await between_products();
  const Tensor out = co_await down_->flow(wide, pass);
  co_return drop(out, batch, network_name_, pass.training());
}

nn::Flow<Tensor> GptBlock::flow(Tensor hidden, Batch batch, const Pass& pass) const {
  const Tensor mixed = co_await attend(hidden, batch, pass);
  hidden = nn::residual(*mesh_, hidden, mixed, name());
  const Tensor more = co_await expand(hidden, batch, pass);
  co_return nn::residual(*mesh_, hidden, more, name());
}

}  // namespace fourfold::model
