// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/gpt.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/model/gpt_block.hpp"

namespace fourfold::model {

namespace {

/// Returns the spec if the model fits the grid. This is checked before anything is made.
const GptSpec& checked(const Mesh& mesh, const GptSpec& spec, std::int64_t samples) {
  check_fits(GptModel(spec), mesh, samples);
  return spec;
}

}  // namespace

Gpt::Gpt(const Mesh& mesh, const GptSpec& spec, std::int64_t samples, const Stage& stage)
    : Transformer(mesh, checked(mesh, spec, samples), {.tokens = "wte", .head = "lm_head"}, stage,
                  nn::head_split(spec.execution.product, spec.heads, sizes_of(mesh))) {
  const Execution& how = spec.execution;
  drop_embedding(spec.dropout);
  if (stage.first) {
    add_positions(std::make_unique<nn::Positions>(mesh, "wpe", spec.context, spec.width,
                                                  how.activations, how.precision, how.seed));
  }
  for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
    add_block(std::make_unique<GptBlock>(mesh, spec, i, head_split()));
  }
  if (!stage.last) return;
  add_head(std::make_unique<nn::LayerNorm>(mesh, "ln_f", spec.width, how.activations, how.precision,
                                           how.seed));
}

// --- the description

GptModel::GptModel(const GptSpec& spec) : spec_(spec) {
  spec.check();
  if (!(spec.dropout >= 0 && spec.dropout < 1)) {
    throw ConfigError(concat("a dropout of ", spec.dropout, " is not between 0 and 1"));
  }
}

ModelPtr GptModel::with_blocks(std::int64_t blocks) const {
  GptSpec spec = spec_;
  spec.layers = blocks;
  return std::make_shared<GptModel>(spec);
}

std::string GptModel::misfit(const grid::Sizes& sizes, std::int64_t samples) const {
  const nn::ProductKind product = spec_.execution.product;
  std::string reason = spec_.misfit(sizes, samples, spec_.context);
  if (reason.empty()) reason = nn::attention_misfit(product, spec_.heads, sizes, samples);
  const nn::HeadSplit split = nn::head_split(product, spec_.heads, sizes);
  for (const nn::LinearSpec& layer : GptProducts(spec_, "h.0", split).all()) {
    if (reason.empty()) reason = nn::linear_misfit(product, layer, sizes);
  }
  return reason;
}

std::unique_ptr<Part> GptModel::make(const Mesh& mesh, std::int64_t samples,
                                     const Stage& stage) const {
  return std::make_unique<Gpt>(mesh, spec_, samples, stage);
}

// --- files of Hugging Face's GPT-2. There the weights of blocks are in × out, and the columns of
// c_attn are in the order [q|k|v][head].

namespace {

/// Maps our rows of c_attn to the columns of the file.
std::vector<std::int64_t> qkv_order(const GptSpec& spec) {
  const std::int64_t size = spec.width / spec.heads;
  std::vector<std::int64_t> order;
  for (std::int64_t head = 0; head < spec.heads; ++head) {
    for (std::int64_t part = 0; part < 3; ++part) {
      for (std::int64_t i = 0; i < size; ++i) {
        order.push_back((part * spec.heads + head) * size + i);
      }
    }
  }
  return order;
}

}  // namespace

FileTensor GptModel::file_tensor(const std::string& name, const grid::Shape& shape) const {
  const std::string with_prefix = "transformer." + name;
  FilePiece piece{.name = name, .other_names = {with_prefix}, .shape = shape};
  // Other programs recognise an untied head only if the other names have the prefix. With a tied
  // head there is no prefix, and the names are those of GPT-2's original files.
  if (!spec_.tied && !name.starts_with("lm_head.")) {
    piece.name = with_prefix;
    piece.other_names = {name};
  }
  if (name.starts_with("h.") && shape.size() == 2) {
    piece.transposed = true;
    std::reverse(piece.shape.begin(), piece.shape.end());
  }
  piece.more_rows = name == "wpe.weight";
  FileTensor tensor{.pieces = {piece}};
  if (name.find(".c_attn.") != std::string::npos) tensor.order = qkv_order(spec_);
  return tensor;
}

std::string GptModel::block_prefix(std::int64_t block) const {
  return concat("h.", block, ".");
}

}  // namespace fourfold::model
