// One block of a GPT: attention and a two-layer network, each behind a norm and added to its input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/model/fit.hpp"
#include "fourfold/nn/attention.hpp"
#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/norm.hpp"
#include "fourfold/nn/rows.hpp"
#include "fourfold/nn/vectors.hpp"

namespace fourfold::model {

using at::Tensor;
using tensor::Mesh;

class Block {
 public:
  Block(const Mesh& mesh, const GptSpec& spec, std::int64_t number, AttentionSplit split);

  /// hidden -> hidden. `training` switches dropout on.
  Tensor forward(const Tensor& hidden, const nn::Batch& batch, bool training) const;

  nn::Parameters parameters() const;

 private:
  Tensor run(const Tensor& hidden, const std::vector<Tensor>& vectors, const nn::Batch& batch,
             bool training) const;
  Tensor attend(const Tensor& hidden, const std::vector<Tensor>& vectors, const nn::Batch& batch,
                bool training) const;
  Tensor expand(const Tensor& hidden, const std::vector<Tensor>& vectors, const nn::Batch& batch,
                bool training) const;
  nn::AttentionShape attention_shape(const nn::Batch& batch, bool training) const;
  Tensor drop(const Tensor& hidden, const nn::Batch& batch, const char* where, bool training) const;

  const Mesh* mesh_;
  GptSpec spec_;
  std::string name_;
  AttentionSplit split_;
  nn::LayerNorm norm1_;
  nn::Linear qkv_;
  nn::Linear projection_;
  nn::LayerNorm norm2_;
  nn::Linear up_;
  nn::Linear down_;
  nn::Vectors vectors_;
};

}  // namespace fourfold::model
