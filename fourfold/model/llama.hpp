// A Llama on any grid: RMS norms, rotary positions, grouped queries, SwiGLU, no biases. Its
// parameters are named after those of Hugging Face's model. Query, key and value are one product,
// and so are gate and up: file_tensor says how their rows are ordered.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "fourfold/model/transformer.hpp"
#include "fourfold/nn/grouped_attention.hpp"

namespace fourfold::model {

/// A Llama's `context` is that of training: the weights do not depend on it.
struct LlamaSpec : Frame {
  LlamaSpec() { tied = false; }
  explicit LlamaSpec(const Frame& frame) : Frame(frame) {}

  std::int64_t kv_heads = 0;  ///< heads of keys and values; divides `heads`, which are of queries
  std::int64_t hidden = 0;    ///< columns between the products of the network
  nn::Rotary rotary;
  double epsilon = 1e-5;  ///< of the norms

  nn::GroupedHeads grouped() const;
};

/// The description of a Llama.
class LlamaModel final : public TokenModel {
 public:
  /// Throws ConfigError for sizes that no Llama can have.
  explicit LlamaModel(const LlamaSpec& spec);

  const LlamaSpec& spec() const { return spec_; }
  const Frame& frame() const override { return spec_; }

  std::string_view kind() const override { return "llama"; }
  std::string sizes() const override;
  std::vector<std::pair<std::string, std::string>> traits() const override;
  ModelPtr with_blocks(std::int64_t blocks) const override;
  std::string misfit(const grid::Sizes& sizes, std::int64_t samples) const override;
  std::unique_ptr<Part> make(const Mesh& mesh, std::int64_t samples,
                             const Stage& stage) const override;
  FileTensor file_tensor(const std::string& name, const grid::Shape& shape) const override;
  std::string block_prefix(std::int64_t block) const override;

 private:
  LlamaSpec spec_;
};

/// A Llama, or a stage of it.
class Llama final : public Transformer {
 public:
  /// `samples` is the number of sequences of a forward pass over the whole grid. Throws ConfigError
  /// that says what to change when the model does not fit the grid.
  Llama(const Mesh& mesh, const LlamaSpec& spec, std::int64_t samples, const Stage& stage);
  /// Makes the whole model.
  Llama(const Mesh& mesh, const LlamaSpec& spec, std::int64_t samples)
      : Llama(mesh, spec, samples, {.blocks = {0, spec.layers}}) {}
};

}  // namespace fourfold::model
