// A block of a model: what the blocks of all kinds have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fourfold/nn/layer.hpp"
#include "fourfold/nn/pass.hpp"
#include "fourfold/nn/rows.hpp"

namespace fourfold::model {

using at::Tensor;
using tensor::Mesh;

/// Layers whose vectors are communicated together.
class Bundled : public nn::Layer {
 public:
  /// All vectors of the block.
  const nn::Vectors& bundle() const { return *bundle_; }
  /// What is gathered for the block.
  tensor::GatherOrder gatherables() const;

 protected:
  using Layer::Layer;
  /// Must be called when all layers of the block have been declared.
  void bundle_vectors() { bundle_ = std::make_unique<nn::Vectors>(*mesh_, vectors()); }

  /// The flows of the parts of a batch. `inputs` are those of all parts.
  using Flows = std::function<std::vector<nn::Flow<Tensor>>(const std::vector<Tensor>& inputs,
                                                            const nn::Pass& pass)>;
  /// Runs the flows in turns. Only the inputs are kept for the backward pass, which computes the
  /// rest again.
  std::vector<Tensor> checkpointed_flows(std::vector<Tensor> inputs, Flows flows,
                                         const nn::Pass& pass) const;

 private:
  std::unique_ptr<nn::Vectors> bundle_;
};

/// A block of a transformer.
class Block : public Bundled {
 public:
  /// hidden -> hidden. The pass must have gathered the block's vectors.
  virtual nn::Flow<Tensor> flow(Tensor hidden, nn::Batch batch, const nn::Pass& pass) const = 0;

  /// Passes the hidden states of the parts of a batch through the block in turns. Only the hidden
  /// states are kept for the backward pass, which computes the rest again.
  std::vector<Tensor> checkpointed(const std::vector<Tensor>& hidden,
                                   const std::vector<nn::Batch>& parts, const nn::Pass& pass) const;

 protected:
  using Bundled::Bundled;
};

}  // namespace fourfold::model
