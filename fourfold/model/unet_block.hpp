// The blocks of a U-Net: residual blocks, attention over pixels, and convolutions between levels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/model/block.hpp"
#include "fourfold/model/unet_spec.hpp"
#include "fourfold/nn/channel_swap.hpp"
#include "fourfold/nn/film.hpp"
#include "fourfold/nn/group_norm.hpp"
#include "fourfold/nn/pixel_attention.hpp"

namespace fourfold::model {

/// The deviation of initial weights that sum so many inputs.
double unet_deviation(std::int64_t inputs);

/// A window of `kernel` × `kernel` pixels over images of `size` × `size`, with zeros around them.
kernels::ConvShape unet_window(std::int64_t size, std::int64_t kernel, std::int64_t stride = 1);

class UNetBlock : public Bundled {
 public:
  static std::unique_ptr<UNetBlock> make(const Mesh& mesh, const UNetSpec& net,
                                         const UNetBlockSpec& block);
  /// Why such a block cannot be split over a grid; empty if it can.
  static std::string misfit(const UNetSpec& net, const UNetBlockSpec& block,
                            const grid::Sizes& sizes);

  /// Images -> images. `embedding` is what TimeEmbedding returns; only residual blocks use it. The
  /// pass must have gathered the block's vectors.
  virtual nn::Flow<Tensor> flow(std::vector<Tensor> inputs, Tensor embedding, nn::Batch batch,
                                const nn::Pass& pass) const = 0;

  /// The inputs of a part of a batch.
  struct Inputs {
    std::vector<Tensor> images;
    Tensor embedding;
  };
  /// Passes the parts of a batch through the block in turns. Only the inputs are kept for the
  /// backward pass, which computes the rest again.
  std::vector<Tensor> checkpointed(const std::vector<Inputs>& inputs,
                                   const std::vector<nn::Batch>& parts, const nn::Pass& pass) const;

  const UNetBlockSpec& spec() const { return spec_; }

 protected:
  UNetBlock(const Mesh& mesh, UNetBlockSpec block)
      : Bundled(mesh, block.name), spec_(std::move(block)) {}

 private:
  UNetBlockSpec spec_;
};

/// The layers of a residual block.
struct ResidualLayers {
  nn::GroupNormSpec norm_in;
  nn::ConvSpec conv_in;
  nn::FilmSpec film;
  nn::GroupNormSpec norm_out;
  nn::ConvSpec conv_out;
  bool has_skip;  ///< the input is convolved, too, since its channels are not those of the output

  ResidualLayers(const UNetSpec& net, const UNetBlockSpec& block);
  std::string misfit(const grid::Sizes& sizes) const;
};

/// The layers of a block of attention, on a grid.
struct PixelAttentionLayers {
  nn::GroupNormSpec norm;
  nn::PixelAttentionSpec attention;
  nn::ConvSpec qkv;
  nn::ConvSpec projection;

  /// The attention must fit the grid.
  PixelAttentionLayers(const UNetSpec& net, const UNetBlockSpec& block, const grid::Sizes& sizes);
};

/// conv(drop(silu(film(norm(conv(silu(norm(input)))))))) + input, where the input is convolved with
/// windows of one pixel if its channels are not those of the output.
class ResidualBlock final : public UNetBlock {
 public:
  ResidualBlock(const Mesh& mesh, const UNetSpec& net, const UNetBlockSpec& block);

  nn::Flow<Tensor> flow(std::vector<Tensor> inputs, Tensor embedding, nn::Batch batch,
                        const nn::Pass& pass) const override;

 private:
  Tensor drop(const Tensor& hidden, const nn::Batch& batch, bool training) const;

  double dropout_;
  nn::Activations activations_;
  kernels::Key dropout_key_;
  ResidualLayers layers_;
  nn::GroupNorm norm_in_;
  nn::Conv conv_in_;
  nn::GatheredLinear film_;
  nn::GroupNorm norm_out_;
  nn::Conv conv_out_;
  std::optional<nn::ChannelSwap> swap_;  // of the input, for the convolution beside the last one
};

/// input + projection(attention(qkv(norm(input)))).
class PixelAttentionBlock final : public UNetBlock {
 public:
  PixelAttentionBlock(const Mesh& mesh, const UNetSpec& net, const UNetBlockSpec& block);

  nn::Flow<Tensor> flow(std::vector<Tensor> inputs, Tensor embedding, nn::Batch batch,
                        const nn::Pass& pass) const override;
  double flops(const nn::Batch& batch) const override;

 private:
  PixelAttentionLayers layers_;
  nn::GroupNorm norm_;
  nn::Conv qkv_;
  nn::Conv projection_;
};

/// Images of half or of twice the size.
class ResamplingBlock final : public UNetBlock {
 public:
  ResamplingBlock(const Mesh& mesh, const UNetSpec& net, const UNetBlockSpec& block);
  static nn::ConvSpec layer(const UNetSpec& net, const UNetBlockSpec& block);

  nn::Flow<Tensor> flow(std::vector<Tensor> inputs, Tensor embedding, nn::Batch batch,
                        const nn::Pass& pass) const override;

 private:
  nn::Conv conv_;
};

}  // namespace fourfold::model
