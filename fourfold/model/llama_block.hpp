// One block of a Llama: attention with grouped queries, and a gated network. Each is preceded by a
// norm, and its result is added to its input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fourfold/model/llama.hpp"
#include "fourfold/nn/rms_norm.hpp"

namespace fourfold::model {

/// The linear layers of a block.
struct LlamaProducts {
  nn::LinearSpec qkv;
  nn::LinearSpec projection;
  nn::LinearSpec gate_up;
  nn::LinearSpec down;

  LlamaProducts(const LlamaSpec& spec, const std::string& block, nn::HeadSplit split);
  std::vector<nn::LinearSpec> all() const { return {qkv, projection, gate_up, down}; }
};

class LlamaBlock final : public Block {
 public:
  LlamaBlock(const Mesh& mesh, const LlamaSpec& spec, std::int64_t number, nn::HeadSplit split);

  nn::Flow<Tensor> flow(Tensor hidden, nn::Batch batch, const nn::Pass& pass) const override;

 private:
  nn::Flow<Tensor> attend(Tensor hidden, const nn::Batch& batch, const nn::Pass& pass) const;
  nn::Flow<Tensor> expand(Tensor hidden, const nn::Pass& pass) const;
  /// Where x has one rank, nothing is communicated between the two products of a pair. There the
  /// halves take turns, so that each computes during both communications of the other.
  nn::Turn between_products() const;
  std::unique_ptr<nn::ProductLayer> make(const nn::LinearSpec& layer) const;

  Execution how_;
  std::string network_name_;  // "model.layers.3.mlp"
  LlamaProducts products_;
  nn::RmsNorm norm1_;
  std::unique_ptr<nn::ProductLayer> qkv_;
  nn::GroupedAttention attention_;
  std::unique_ptr<nn::ProductLayer> projection_;
  nn::RmsNorm norm2_;
  std::unique_ptr<nn::ProductLayer> gate_up_;
  std::unique_ptr<nn::ProductLayer> down_;
};

}  // namespace fourfold::model
