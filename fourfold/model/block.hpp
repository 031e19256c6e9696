// One block of a GPT: attention and a two-layer network, each behind a norm and added to its input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/attention.hpp"
#include "fourfold/nn/linear.hpp"
#include "fourfold/nn/norm.hpp"
#include "fourfold/nn/rows.hpp"
#include "fourfold/nn/vectors.hpp"

namespace fourfold::model {

using at::Tensor;
using tensor::Mesh;

struct GptSpec {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 0;
  std::int64_t context = 0;
  double dropout = 0;
  bool tied = true;  ///< the head uses the table of the embedding
  nn::Activations activations = nn::Activations::kSharded;
  bool checkpoint = false;  ///< keep only the blocks' inputs
  nn::Precision precision;
  std::uint64_t seed = 1;
};

/// How the ranks along x and y share the work of attention.
enum class AttentionSplit {
  kHeads,    ///< each has some of the heads
  kSamples,  ///< along y some of the heads, along x some of the samples
};

/// Heads if they divide, else samples. Throws ConfigError that says which grids would work when
/// neither does.
AttentionSplit attention_split(const Mesh& mesh, const GptSpec& spec, std::int64_t samples);

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
