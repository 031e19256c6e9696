// The layers of a U-Net before and after its blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/model/unet_block.hpp"
#include "fourfold/nn/entry_conv.hpp"
#include "fourfold/nn/exit_conv.hpp"
#include "fourfold/nn/time_embedding.hpp"

namespace fourfold::model {

/// The time embedding and the first convolution.
class UNetEntry final : public Bundled {
 public:
  /// Why these layers cannot be split over a grid; empty if they can.
  static std::string misfit(const UNetSpec& spec, const grid::Sizes& sizes);

  UNetEntry(const Mesh& mesh, const UNetSpec& spec);

  // The pass must have gathered the bundle.

  /// For each sample the number of its diffusion step -> what all blocks use of it.
  nn::Flow<Tensor> embed(Tensor times, const nn::Pass& pass) const;
  /// Images, rows × colours in the type of computation, -> images of the first level.
  Tensor convolve(const Tensor& images, const nn::Pass& pass) const;

 private:
  nn::TimeEmbedding embedding_;
  nn::EntryConv conv_;
};

/// The last norm and convolution.
class UNetExit final : public Bundled {
 public:
  static std::string misfit(const UNetSpec& spec, const grid::Sizes& sizes);

  UNetExit(const Mesh& mesh, const UNetSpec& spec);

  /// Images of the first level -> rows × outputs, the same on all ranks along x and y. The pass
  /// must have gathered the bundle.
  nn::Flow<Tensor> flow(Tensor images, std::int64_t samples, const nn::Pass& pass) const;

 private:
  nn::GroupNorm norm_;
  nn::ExitConv conv_;
};

}  // namespace fourfold::model
