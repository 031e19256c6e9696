// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/unet_ends.hpp"

namespace fourfold::model {

using nn::Pass;

namespace {

constexpr std::int64_t kTaps = 9;

nn::TimeEmbeddingSpec embedding_of(const UNetSpec& spec) {
  return {.name = "time_embed",
          .channels = spec.channels,
          .width = spec.embedding(),
          .deviation_in = unet_deviation(spec.channels),
          .deviation_out = unet_deviation(spec.embedding())};
}

nn::EntryConvSpec first_conv_of(const UNetSpec& spec) {
  return {.name = "input_blocks.0.0",
          .in = spec.colours,
          .out = spec.channels,
          .shape = unet_window(spec.image, 3),
          .activations = spec.execution.activations,
          .deviation = unet_deviation(kTaps * spec.colours)};
}

/// The channels of the last block.
std::int64_t last_channels(const UNetSpec& spec) {
  return spec.multipliers[0] * spec.channels;
}

nn::GroupNormSpec last_norm_of(const UNetSpec& spec) {
  return {.name = "out.0",
          .parts = {last_channels(spec)},
          .groups = spec.groups,
          .activations = spec.execution.activations,
          .silu = true};
}

nn::ExitConvSpec last_conv_of(const UNetSpec& spec) {
  return {.name = "out.2",
          .in = last_channels(spec),
          .out = spec.outputs(),
          .shape = unet_window(spec.image, 3),
          .activations = spec.execution.activations};
}

}  // namespace

// --- before the blocks

std::string UNetEntry::misfit(const UNetSpec& spec, const grid::Sizes& sizes) {
  const std::string reason = nn::TimeEmbedding::misfit(embedding_of(spec), sizes);
  return reason.empty() ? nn::EntryConv::misfit(first_conv_of(spec), sizes) : reason;
}

UNetEntry::UNetEntry(const Mesh& mesh, const UNetSpec& spec)
    : Bundled(mesh, "input_blocks.0"),
      embedding_(mesh, embedding_of(spec), spec.execution.precision, spec.execution.seed),
      conv_(mesh, first_conv_of(spec), spec.execution.precision, spec.execution.seed) {
  consists_of(embedding_);
  consists_of(conv_);
  bundle_vectors();
}

nn::Flow<Tensor> UNetEntry::embed(Tensor times, const Pass& pass) const {
  return embedding_.flow(std::move(times), pass);
}

Tensor UNetEntry::convolve(const Tensor& images, const Pass& pass) const {
  return conv_.forward(images, pass);
}

// --- after the blocks

std::string UNetExit::misfit(const UNetSpec& spec, const grid::Sizes& sizes) {
  const std::string reason = nn::GroupNorm::misfit(last_norm_of(spec), sizes);
  return reason.empty() ? nn::ExitConv::misfit(last_conv_of(spec), sizes) : reason;
}

UNetExit::UNetExit(const Mesh& mesh, const UNetSpec& spec)
    : Bundled(mesh, "out"),
      norm_(mesh, last_norm_of(spec), spec.execution.precision, spec.execution.seed),
      conv_(mesh, last_conv_of(spec), spec.execution.precision, spec.execution.seed) {
  consists_of(norm_);
  consists_of(conv_);
  bundle_vectors();
}

nn::Flow<Tensor> UNetExit::flow(Tensor images, std::int64_t samples, const Pass& pass) const {
  std::vector<Tensor> hidden = {std::move(images)};
  hidden = co_await norm_.flow(std::move(hidden), Tensor(), samples, pass);
  co_return co_await conv_.flow(std::move(hidden[0]), pass);
}

}  // namespace fourfold::model
