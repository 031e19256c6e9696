// One block of a GPT: attention and a two-layer network. Each is preceded by a norm, and its result
// is added to its input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "fourfold/model/fit.hpp"
#include "fourfold/nn/attention.hpp"
#include "fourfold/nn/norm.hpp"
#include "fourfold/nn/rows.hpp"
#include "fourfold/nn/vectors.hpp"

namespace fourfold::model {

using at::Tensor;
using tensor::Mesh;

class Block {
 public:
  Block(const Mesh& mesh, const GptSpec& spec, std::int64_t number, AttentionSplit split);

  /// hidden -> hidden. `vectors` are the gathered vectors of this block. `training` switches
  /// dropout on.
  nn::Flow<Tensor> flow(Tensor hidden, std::vector<Tensor> vectors, nn::Batch batch,
                        bool training) const;

  /// Passes the hidden states of the parts of a batch through the block in turns. Only the hidden
  /// states are kept for the backward pass, which computes the rest again.
  std::vector<Tensor> checkpointed(const std::vector<Tensor>& hidden,
                                   const std::vector<nn::Batch>& parts, bool training) const;

  const nn::Vectors& vectors() const { return vectors_; }
  nn::Parameters parameters() const;
  /// What is gathered for the block.
  tensor::GatherOrder gatherables() const;

 private:
  nn::Flow<Tensor> attend(Tensor hidden, const std::vector<Tensor>& vectors, const nn::Batch& batch,
                          bool training) const;
  nn::Flow<Tensor> expand(Tensor hidden, const std::vector<Tensor>& vectors, const nn::Batch& batch,
                          bool training) const;
  /// Where x has one rank, nothing is communicated between the two products of a pair. There the
  /// halves take turns, so that each computes during both communications of the other.
  nn::Turn between_products() const;
  nn::AttentionShape attention_shape(const nn::Batch& batch, bool training) const;
  Tensor drop(const Tensor& hidden, const nn::Batch& batch, const std::string& layer,
              bool training) const;

  const Mesh* mesh_;
  GptSpec spec_;
  std::string name_;            // "h.3"
  std::string attention_name_;  // "h.3.attn"
  std::string network_name_;    // "h.3.mlp"
  AttentionSplit split_;
  nn::LayerNorm norm1_;
  std::unique_ptr<nn::ProductLayer> qkv_;
  std::unique_ptr<nn::ProductLayer> projection_;
  nn::LayerNorm norm2_;
  std::unique_ptr<nn::ProductLayer> up_;
  std::unique_ptr<nn::ProductLayer> down_;
  nn::Vectors vectors_;
};

}  // namespace fourfold::model
