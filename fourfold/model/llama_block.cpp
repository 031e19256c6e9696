// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/llama_block.hpp"

#include <cmath>

#include "fourfold/base/text.hpp"
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
double residual_deviation(std::int64_t layers) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(layers));
}

}  // namespace

LlamaProducts::LlamaProducts(const LlamaSpec& spec, const std::string& block, nn::HeadSplit split)
    : qkv{.name = block + ".self_attn.qkv_proj",
          .in = spec.width,
          .out = spec.grouped().columns(),
          .bias = false},
      projection{
          .name = block + ".self_attn.o_proj", .in = spec.width, .out = spec.width, .bias = false},
      gate_up{.name = block + ".mlp.gate_up_proj",
              .in = spec.width,
              .out = 2 * spec.hidden,
              .bias = false},
      down{.name = block + ".mlp.down_proj", .in = spec.hidden, .out = spec.width, .bias = false} {
  const Spread between = spec.between_blocks();
  const Spread inside = nn::spread_in_attention(split);
  qkv.input = gate_up.input = down.input = between;
  projection.output = gate_up.output = down.output = between;
  qkv.output = projection.input = inside;
  projection.transposed = down.transposed = true;
  qkv.deviation = gate_up.deviation = kDeviation;
  projection.deviation = down.deviation = residual_deviation(spec.layers);
}

LlamaBlock::LlamaBlock(const Mesh& mesh, const LlamaSpec& spec, std::int64_t number,
                       nn::HeadSplit split)
    : Block(mesh, concat("model.layers.", number)),
      how_(spec.execution),
      network_name_(name() + ".mlp"),
      products_(spec, name(), split),
      norm1_(mesh, name() + ".input_layernorm", spec.width, how_.activations, how_.precision,
             how_.seed, spec.epsilon),
      qkv_(make(products_.qkv)),
      attention_(mesh, name() + ".self_attn", spec.grouped(), split, spec.rotary),
      projection_(make(products_.projection)),
      norm2_(mesh, name() + ".post_attention_layernorm", spec.width, how_.activations,
             how_.precision, how_.seed, spec.epsilon),
      gate_up_(make(products_.gate_up)),
      down_(make(products_.down)) {
  consists_of(norm1_);
  consists_of(*qkv_);
  consists_of(attention_);
  consists_of(*projection_);
  consists_of(norm2_);
  consists_of(*gate_up_);
  consists_of(*down_);
  bundle_vectors();
}

std::unique_ptr<nn::ProductLayer> LlamaBlock::make(const nn::LinearSpec& layer) const {
  return nn::make_linear(how_.product, *mesh_, layer, how_.precision, how_.seed);
}

nn::Turn LlamaBlock::between_products() const {
  return nn::Turn{mesh_->size(Axis::kX) == 1};
}

nn::Flow<Tensor> LlamaBlock::attend(Tensor hidden, const Batch& batch, const Pass& pass) const {
  const Tensor normal = co_await norm1_.flow(hidden, pass);
  Tensor qkv = co_await qkv_->flow(normal, pass);
  const Tensor mixed = co_await attention_.flow(std::move(qkv), batch, pass);
  co_await between_products();
  co_return co_await projection_->flow(mixed, pass);
}

nn::Flow<Tensor> LlamaBlock::expand(Tensor hidden, const Pass& pass) const {
  const Tensor normal = co_await norm2_.flow(hidden, pass);
  Tensor wide = co_await gate_up_->flow(normal, pass);
  wide = nn::swiglu(*mesh_, wide, network_name_);
  co_await between_products();
  co_return co_await down_->flow(wide, pass);
}

nn::Flow<Tensor> LlamaBlock::flow(Tensor hidden, Batch batch, const Pass& pass) const {
  const Tensor mixed = co_await attend(hidden, batch, pass);
  hidden = nn::residual(*mesh_, hidden, mixed, name());
  const Tensor more = co_await expand(hidden, pass);
  co_return nn::residual(*mesh_, hidden, more, name());
}

}  // namespace fourfold::model
