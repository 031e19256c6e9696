// A GPT of the architecture of GPT-2, on any grid. Its parameters have the names that they have in
// Hugging Face's model, but not the shapes: weights are out × in, and the rows of c_attn are
// ordered [head][q|k|v].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/model/transformer.hpp"

namespace fourfold::model {

struct GptSpec : Frame {
  double dropout = 0;
};

/// The description of a GPT.
class GptModel final : public TokenModel {
 public:
  /// Throws ConfigError for sizes that no GPT can have.
  explicit GptModel(const GptSpec& spec);

  const GptSpec& spec() const { return spec_; }
  const Frame& frame() const override { return spec_; }

  std::string_view kind() const override { return "gpt"; }
  ModelPtr with_blocks(std::int64_t blocks) const override;
  std::string misfit(const grid::Sizes& sizes, std::int64_t samples) const override;
  std::unique_ptr<Part> make(const Mesh& mesh, std::int64_t samples,
                             const Stage& stage) const override;
  FileTensor file_tensor(const std::string& name, const grid::Shape& shape) const override;
  std::string block_prefix(std::int64_t block) const override;

 private:
  GptSpec spec_;
};

/// A GPT, or a stage of it.
class Gpt final : public Transformer {
 public:
  /// `samples` is the number of sequences of a forward pass over the whole grid. Throws ConfigError
  /// that says what to change when the model does not fit the grid.
  Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples, const Stage& stage);
  /// Makes the whole model.
  Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples)
      : Gpt(mesh, spec, samples, {.blocks = {0, spec.layers}}) {}
};

}  // namespace fourfold::model
