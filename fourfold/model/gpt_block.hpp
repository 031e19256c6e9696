// One block of a GPT: attention and a two-layer network. Each is preceded by a norm, and its result
// is added to its input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fourfold/model/gpt.hpp"
#include "fourfold/nn/layer_norm.hpp"

namespace fourfold::model {

/// The linear layers of a block.
struct GptProducts {
  nn::LinearSpec qkv;
  nn::LinearSpec projection;
  nn::LinearSpec up;
  nn::LinearSpec down;

  GptProducts(const Frame& frame, const std::string& block, nn::HeadSplit split);
  std::vector<nn::LinearSpec> all() const { return {qkv, projection, up, down}; }
};

class GptBlock final : public Block {
 public:
  GptBlock(const Mesh& mesh, const GptSpec& spec, std::int64_t number, nn::HeadSplit split);

  nn::Flow<Tensor> flow(Tensor hidden, nn::Batch batch, const nn::Pass& pass) const override;
  double flops(const nn::Batch& batch) const override;

 private:
  nn::Flow<Tensor> attend(Tensor hidden, const nn::Batch& batch, const nn::Pass& pass) const;
  nn::Flow<Tensor> expand(Tensor hidden, const nn::Batch& batch, const nn::Pass& pass) const;
  /// Where x has one rank, nothing is communicated between the two products of a pair. There the
  /// halves take turns, so that each computes during both communications of the other.
  nn::Turn between_products() const;
  nn::AttentionShape attention_shape(const nn::Batch& batch, bool training) const;
  Tensor drop(const Tensor& hidden, const nn::Batch& batch, const std::string& layer,
              bool training) const;
  std::unique_ptr<nn::ProductLayer> make(const nn::LinearSpec& spec) const;

  GptSpec spec_;
  std::string attention_name_;  // "h.3.attn"
  std::string network_name_;    // "h.3.mlp"
  nn::HeadSplit split_;
  GptProducts products_;
  nn::LayerNorm norm1_;
  std::unique_ptr<nn::ProductLayer> qkv_;
  std::unique_ptr<nn::ProductLayer> projection_;
  nn::LayerNorm norm2_;
  std::unique_ptr<nn::ProductLayer> up_;
  std::unique_ptr<nn::ProductLayer> down_;
};

}  // namespace fourfold::model
