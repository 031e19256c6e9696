// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/unet_block.hpp"

#include <cmath>

#include "fourfold/base/check.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/nn/columns.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/image_window.hpp"
#include "fourfold/nn/resample.hpp"

namespace fourfold::model {

using nn::Batch;
using nn::Pass;
using nn::Spread;

double unet_deviation(std::int64_t inputs) {
  return 1 / std::sqrt(3.0 * static_cast<double>(inputs));
}

kernels::ConvShape unet_window(std::int64_t size, std::int64_t kernel, std::int64_t stride) {
  return {.height = size,
          .width = size,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride = stride,
          .pad_height = kernel / 2,
          .pad_width = kernel / 2};
}

namespace {

Spread spread_of(const UNetSpec& net) {
  return net.execution.activations == nn::Activations::kSharded ? Spread::kColumns
                                                                : Spread::kCopies;
}

std::vector<std::int64_t> channels_of(const std::vector<UNetImages>& inputs) {
  std::vector<std::int64_t> all;
  for (const UNetImages& one : inputs) all.push_back(one.channels);
  return all;
}

/// A convolution of each of the inputs. Where there are two, their weights are one tensor in files.
std::vector<nn::ConvTerm> terms_of(const std::string& name, const UNetBlockSpec& block,
                                   const kernels::ConvShape& shape) {
  std::vector<nn::ConvTerm> terms;
  for (std::size_t i = 0; i < block.inputs.size(); ++i) {
    const std::string suffix = block.inputs.size() > 1 ? concat(".", i) : std::string();
    terms.push_back({.name = name + ".weight" + suffix,
                     .in = block.inputs[i].channels,
                     .shape = shape,
                     .deviation = unet_deviation(shape.taps() * block.in_channels())});
  }
  return terms;
}

/// A convolution whose terms are set later.
nn::ConvSpec conv_of(const UNetSpec& net, const std::string& name, std::int64_t out,
                     bool transposed) {
  return {.name = name,
          .terms = {},
          .out = out,
          .transposed = transposed,
          .input = spread_of(net),
          .output = spread_of(net)};
}

nn::GroupNormSpec norm_of(const UNetSpec& net, const std::string& name,
                          std::vector<std::int64_t> parts, bool transposed) {
  return {.name = name,
          .parts = std::move(parts),
          .groups = net.groups,
          .transposed = transposed,
          .activations = net.execution.activations};
}

}  // namespace

// --- all blocks

std::unique_ptr<UNetBlock> UNetBlock::make(const Mesh& mesh, const UNetSpec& net,
                                           const UNetBlockSpec& block) {
  switch (block.kind) {
    case UNetBlockSpec::Kind::kResidual:
      return std::make_unique<ResidualBlock>(mesh, net, block);
    case UNetBlockSpec::Kind::kAttention:
      return std::make_unique<PixelAttentionBlock>(mesh, net, block);
    case UNetBlockSpec::Kind::kDown:
    case UNetBlockSpec::Kind::kUp:
      break;
  }
  return std::make_unique<ResamplingBlock>(mesh, net, block);
}

std::string UNetBlock::misfit(const UNetSpec& net, const UNetBlockSpec& block,
                              const grid::Sizes& sizes) {
  if (block.kind == UNetBlockSpec::Kind::kResidual) return ResidualLayers(net, block).misfit(sizes);
  if (block.kind != UNetBlockSpec::Kind::kAttention) {
    return nn::Conv::misfit(ResamplingBlock::layer(net, block), sizes);
  }
  const nn::PixelAttentionSpec attention{.name = block.name,
                                         .heads = net.heads,
                                         .channels = block.output.channels,
                                         .transposed = block.output.transposed};
  std::string reason = nn::pixel_attention_misfit(attention, sizes);
  if (!reason.empty()) return reason;
  const PixelAttentionLayers layers(net, block, sizes);
  reason = nn::GroupNorm::misfit(layers.norm, sizes);
  for (const nn::ConvSpec& layer : {layers.qkv, layers.projection}) {
    if (reason.empty()) reason = nn::Conv::misfit(layer, sizes);
  }
  return reason;
}

std::vector<Tensor> UNetBlock::checkpointed(const std::vector<Inputs>& inputs,
                                            const std::vector<Batch>& parts,
                                            const Pass& pass) const {
  const bool embeds = spec_.kind == UNetBlockSpec::Kind::kResidual;
  std::vector<Tensor> all;
  for (const Inputs& one : inputs) {
    all.insert(all.end(), one.images.begin(), one.images.end());
    if (embeds) all.push_back(one.embedding);
  }
  const auto flows = [this, parts, embeds](const std::vector<Tensor>& in, const Pass& inner) {
    std::vector<nn::Flow<Tensor>> result;
    auto next = in.begin();
    for (const Batch& part : parts) {
      const auto end = next + static_cast<std::ptrdiff_t>(spec_.inputs.size());
      const Tensor embedding = embeds ? *end : Tensor();
      result.push_back(flow({next, end}, embedding, part, inner));
      next = end + (embeds ? 1 : 0);
    }
    return result;
  };
  return checkpointed_flows(std::move(all), flows, pass);
}

// --- the residual block

ResidualLayers::ResidualLayers(const UNetSpec& net, const UNetBlockSpec& block)
    : has_skip(block.in_channels() != block.output.channels) {
  const bool first = block.output.transposed;  // the order of axes outside of the block
  const std::int64_t out = block.output.channels;
  const kernels::ConvShape three = unet_window(block.output.size, 3);
  norm_in = norm_of(net, block.name + ".in_layers.0", channels_of(block.inputs), first);
  norm_in.silu = true;
  conv_in = conv_of(net, block.name + ".in_layers.2", out, first);
  conv_in.terms = terms_of(conv_in.name, block, three);
  film = {.name = block.name + ".emb_layers.1",
          .width = net.embedding(),
          .channels = out,
          .transposed = !first,
          .activations = net.execution.activations,
          .deviation = unet_deviation(net.embedding())};
  norm_out = norm_of(net, block.name + ".out_layers.0", {out}, !first);
  norm_out.silu = norm_out.film = true;
  conv_out = conv_of(net, block.name + ".out_layers.3", out, !first);
  conv_out.terms = {{.name = conv_out.name + ".weight", .in = out, .shape = three}};
  if (!has_skip) return;
  const std::string skip = block.name + ".skip_connection";
  for (nn::ConvTerm& term : terms_of(skip, block, unet_window(block.output.size, 1))) {
    conv_out.terms.push_back(std::move(term));
  }
  conv_out.terms.back().bias = skip + ".bias";
}

std::string ResidualLayers::misfit(const grid::Sizes& sizes) const {
  std::string reason;
  for (const nn::GroupNormSpec& norm : {norm_in, norm_out}) {
    if (reason.empty()) reason = nn::GroupNorm::misfit(norm, sizes);
  }
  for (const nn::ConvSpec& conv : {conv_in, conv_out}) {
    if (reason.empty()) reason = nn::Conv::misfit(conv, sizes);
  }
  // The swap of a skip's inputs cuts them into a block for each rank along x and y, whether
  // activations are sharded or not.
  for (std::size_t i = 1; i < conv_out.terms.size() && reason.empty(); ++i) {
    const nn::ConvTerm& term = conv_out.terms[i];
    reason = nn::cannot_split(term.name, "input channels", term.in, std::int64_t{sizes.x} * sizes.y,
                              "x times y");
  }
  if (reason.empty()) reason = nn::GatheredLinear::misfit(nn::film_spec(film), sizes);
  return reason;
}

ResidualBlock::ResidualBlock(const Mesh& mesh, const UNetSpec& net, const UNetBlockSpec& block)
    : UNetBlock(mesh, block),
      dropout_(net.dropout),
      activations_(net.execution.activations),
      dropout_key_(kernels::key_of(net.execution.seed, name() + ".out_layers.2")),
      layers_(net, block),
      norm_in_(mesh, layers_.norm_in, net.execution.precision, net.execution.seed),
      conv_in_(mesh, layers_.conv_in, net.execution.precision, net.execution.seed),
      film_(mesh, nn::film_spec(layers_.film), net.execution.precision, net.execution.seed),
      norm_out_(mesh, layers_.norm_out, net.execution.precision, net.execution.seed),
      conv_out_(mesh, layers_.conv_out, net.execution.precision, net.execution.seed) {
  if (layers_.has_skip) {
    swap_.emplace(mesh, nn::ChannelSwapSpec{.name = name() + ".skip_connection",
                                            .transposed = block.output.transposed,
                                            .activations = activations_});
  }
  consists_of(norm_in_);
  consists_of(conv_in_);
  consists_of(film_);
  consists_of(norm_out_);
  consists_of(conv_out_);
  bundle_vectors();
}

Tensor ResidualBlock::drop(const Tensor& hidden, const Batch& batch, bool training) const {
  if (!training || dropout_ == 0) return hidden;
  const UNetImages& images = spec().output;
  const kernels::Window2 window =
      nn::image_window(*mesh_, batch, images.size * images.size, images.channels,
                       nn::channel_axes(!images.transposed, activations_));
  return nn::dropout(*mesh_, hidden, dropout_, kernels::key_of(dropout_key_, batch.step), window,
                     name());
}

nn::Flow<Tensor> ResidualBlock::flow(std::vector<Tensor> inputs, Tensor embedding, Batch batch,
                                     const Pass& pass) const {
  const std::int64_t samples = nn::local_samples(*mesh_, batch);
  Tensor same;
  std::shared_ptr<nn::ChannelSwap::Begun> skip;
  if (swap_) {
    skip = swap_->begin(inputs);
  } else {
    same = inputs[0];
  }
  std::vector<Tensor> hidden = co_await norm_in_.flow(std::move(inputs), Tensor(), samples, pass);
  const Tensor film = co_await film_.flow(std::move(embedding), pass);
  Tensor wide = co_await conv_in_.flow(std::move(hidden), pass);
  hidden = {std::move(wide)};
  hidden = co_await norm_out_.flow(std::move(hidden), film, samples, pass);
  hidden[0] = drop(hidden[0], batch, pass.training());
  if (skip) {
    std::vector<Tensor> more = co_await swap_->end(std::move(skip));
    for (Tensor& one : more) hidden.push_back(std::move(one));
  }
  Tensor out = co_await conv_out_.flow(std::move(hidden), pass);
  if (same.defined()) out = nn::residual(*mesh_, out, same, name());
  co_return out;
}

// --- attention

PixelAttentionLayers::PixelAttentionLayers(const UNetSpec& net, const UNetBlockSpec& block,
                                           const grid::Sizes& sizes) {
  const bool first = block.output.transposed;
  const std::int64_t channels = block.output.channels;
  const kernels::ConvShape one = unet_window(block.output.size, 1);
  norm = norm_of(net, block.name + ".norm", {channels}, first);
  attention = {.name = block.name, .heads = net.heads, .channels = channels, .transposed = first};
  const Spread between = nn::pixel_attention_spread(attention, sizes);
  qkv = conv_of(net, block.name + ".qkv", 3 * channels, first);
  qkv.terms = terms_of(qkv.name, block, one);
  qkv.output = between;
  projection = conv_of(net, block.name + ".proj_out", channels, !first);
  projection.terms = terms_of(projection.name, block, one);
  projection.terms[0].deviation = 0;
  projection.input = between;
}

PixelAttentionBlock::PixelAttentionBlock(const Mesh& mesh, const UNetSpec& net,
                                         const UNetBlockSpec& block)
    : UNetBlock(mesh, block),
      layers_(net, block, sizes_of(mesh)),
      norm_(mesh, layers_.norm, net.execution.precision, net.execution.seed),
      qkv_(mesh, layers_.qkv, net.execution.precision, net.execution.seed),
      projection_(mesh, layers_.projection, net.execution.precision, net.execution.seed) {
  consists_of(norm_);
  consists_of(qkv_);
  consists_of(projection_);
  bundle_vectors();
}

nn::Flow<Tensor> PixelAttentionBlock::flow(std::vector<Tensor> inputs, Tensor, Batch batch,
                                           const Pass& pass) const {
  const std::int64_t samples = nn::local_samples(*mesh_, batch);
  const Tensor same = inputs[0];
  std::vector<Tensor> hidden = co_await norm_.flow(std::move(inputs), Tensor(), samples, pass);
  Tensor qkv = co_await qkv_.flow(std::move(hidden), pass);
  hidden = {nn::pixel_attention(*mesh_, qkv, layers_.attention, samples, name())};
  qkv = Tensor();
  const Tensor mixed = co_await projection_.flow(std::move(hidden), pass);
  co_return nn::residual(*mesh_, mixed, same, name());
}

double PixelAttentionBlock::flops(const Batch& batch) const {
  const std::int64_t size = spec().output.size;
  return UNetBlock::flops(batch) +
         nn::pixel_attention_flops(layers_.attention, batch.samples, size * size);
}

// --- between levels

nn::ConvSpec ResamplingBlock::layer(const UNetSpec& net, const UNetBlockSpec& block) {
  const bool down = block.kind == UNetBlockSpec::Kind::kDown;
  nn::ConvSpec conv = conv_of(net, block.name, block.output.channels, block.inputs[0].transposed);
  conv.terms =
      terms_of(conv.name, block,
               down ? unet_window(block.inputs[0].size, 3, 2) : unet_window(block.output.size, 3));
  return conv;
}

ResamplingBlock::ResamplingBlock(const Mesh& mesh, const UNetSpec& net, const UNetBlockSpec& block)
    : UNetBlock(mesh, block),
      conv_(mesh, layer(net, block), net.execution.precision, net.execution.seed) {
  consists_of(conv_);
  bundle_vectors();
}

nn::Flow<Tensor> ResamplingBlock::flow(std::vector<Tensor> inputs, Tensor, Batch,
                                       const Pass& pass) const {
  if (spec().kind == UNetBlockSpec::Kind::kUp) {
    const std::int64_t size = spec().inputs[0].size;
    inputs[0] = nn::enlarge(*mesh_, inputs[0], size, size, name());
  }
  co_return co_await conv_.flow(std::move(inputs), pass);
}

}  // namespace fourfold::model
