// Moves the channels of images between ranks: from the order of axes in which one layer leaves them
// to the order in which another layer takes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fourfold/nn/conv.hpp"

namespace fourfold::nn {

struct ChannelSwapSpec {
  std::string name;
  /// The order before the swap: channels lie over y and then x, instead of the reverse.
  bool transposed = false;
  Activations activations = Activations::kSharded;
};

/// Let channels lie over (a, b). Both orders cut them into the same blocks, so that a swap sends
/// one whole block to one rank and receives one from another. A block begins the swap of its input
/// before its first convolution, and ends it before its last: the transfer is hidden in between,
/// forward and backward.
///
/// With replicated activations channels lie over a, with copies along b. A rank sends its own block
/// of them, and what arrives is gathered along a: then channels lie over b, with copies along a,
/// which the next layer takes as Spread::kCopies.
///
/// Where x or y has one rank and activations are sharded, nothing is done.
class ChannelSwap final : public Layer {
 public:
  ChannelSwap(const Mesh& mesh, const ChannelSwapSpec& spec);

  /// A swap that has begun.
  class Begun;

  /// Begins to send the inputs, which are contiguous and are all sent together.
  std::shared_ptr<Begun> begin(const std::vector<Tensor>& inputs) const;
  /// The inputs with their channels in the other order. Differentiable. A swap that has begun must
  /// be ended, once.
  Flow<std::vector<Tensor>> end(std::shared_ptr<Begun> begun) const;

  const ChannelSwapSpec& spec() const { return spec_; }
  /// Whether this rank sends its blocks to another one.
  bool moves() const;

 private:
  std::vector<tensor::Pending> transfer(const std::vector<Tensor>& blocks, bool back) const;
  Tensor own_columns(const Tensor& rows, grid::Axis axis) const;
  tensor::Pending gather(const Tensor& block, grid::Axis axis) const;
  Tensor merge(const Tensor& stacked, grid::Axis axis) const;

  ChannelSwapSpec spec_;
  grid::Axis first_;   // a
  grid::Axis second_;  // b
  int to_ = 0;         // in the group over x and y: who takes the block of this rank
  int from_ = 0;       // whose block this rank takes
};

}  // namespace fourfold::nn
