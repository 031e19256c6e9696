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

  /// Begins to send the inputs.
  std::shared_ptr<Begun> begin(const std::vector<Tensor>& inputs) const;
  /// The inputs with their channels in the other order. Differentiable. A swap that has begun must
  /// be ended, once.
  Flow<std::vector<Tensor>> end(std::shared_ptr<Begun> begun) const;

  const ChannelSwapSpec& spec() const { return spec_; }
  /// Whether this rank sends its blocks to another one.
  bool moves() const;

 private:
  struct Call;

  bool replicated() const { return spec_.activations == Activations::kReplicated; }
  tensor::Pending transfer(const Tensor& block, bool back) const;
  std::vector<tensor::Pending> transfer_all(const variable_list& rows, grid::Axis split,
                                            bool back) const;
  std::vector<tensor::Pending> gather_all(std::vector<tensor::Pending>& blocks,
                                          grid::Axis along) const;
  variable_list merge_all(std::vector<tensor::Pending>& gathered, grid::Axis along) const;

  ChannelSwapSpec spec_;
  grid::Axis first_;   // a
  grid::Axis second_;  // b
  int to_ = 0;         // in the group over x and y: who takes the block of this rank
  int from_ = 0;       // whose block this rank takes
};

}  // namespace fourfold::nn
