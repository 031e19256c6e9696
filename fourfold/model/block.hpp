// A block of a transformer: what the blocks of all kinds have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fourfold/nn/layer.hpp"
#include "fourfold/nn/pass.hpp"
#include "fourfold/nn/rows.hpp"

namespace fourfold::model {

using at::Tensor;
using tensor::Mesh;

class Block : public nn::Layer {
 public:
  /// hidden -> hidden. The pass must have gathered the block's vectors.
  virtual nn::Flow<Tensor> flow(Tensor hidden, nn::Batch batch, const nn::Pass& pass) const = 0;

  /// Passes the hidden states of the parts of a batch through the block in turns. Only the hidden
  /// states are kept for the backward pass, which computes the rest again.
  std::vector<Tensor> checkpointed(const std::vector<Tensor>& hidden,
                                   const std::vector<nn::Batch>& parts, const nn::Pass& pass) const;

  /// All vectors of the block, which are communicated together.
  const nn::Vectors& bundle() const { return *bundle_; }
  /// What is gathered for the block.
  tensor::GatherOrder gatherables() const;

 protected:
  using Layer::Layer;
  /// Must be called when all layers of the block have been declared.
  void bundle_vectors() { bundle_ = std::make_unique<nn::Vectors>(*mesh_, vectors()); }

 private:
  std::unique_ptr<nn::Vectors> bundle_;
};

}  // namespace fourfold::model
