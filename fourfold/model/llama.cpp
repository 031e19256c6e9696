// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/llama.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/model/llama_block.hpp"

namespace fourfold::model {

nn::GroupedHeads LlamaSpec::grouped() const {
  return {.heads = heads, .kv_heads = kv_heads, .head_size = width / heads};
}

namespace {

/// Returns the spec if the model fits the grid. This is checked before anything is made.
const LlamaSpec& checked(const Mesh& mesh, const LlamaSpec& spec, std::int64_t samples) {
  check_fits(LlamaModel(spec), mesh, samples);
  return spec;
}

nn::HeadSplit split_of(const LlamaSpec& spec, const grid::Sizes& sizes) {
  return nn::grouped_split(spec.execution.product, spec.grouped(), sizes);
}

}  // namespace

Llama::Llama(const Mesh& mesh, const LlamaSpec& spec, std::int64_t samples, const Stage& stage)
    : Transformer(mesh, checked(mesh, spec, samples),
                  {.tokens = "model.embed_tokens", .head = "lm_head"}, stage,
                  split_of(spec, sizes_of(mesh))) {
  for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
    add_block(std::make_unique<LlamaBlock>(mesh, spec, i, head_split()));
  }
  if (!stage.last) return;
  const Execution& how = spec.execution;
  add_head(std::make_unique<nn::RmsNorm>(mesh, "model.norm", spec.width, how.activations,
                                         how.precision, how.seed, spec.epsilon));
}

// --- the description

LlamaModel::LlamaModel(const LlamaSpec& spec) : spec_(spec) {
  spec.check();
  if (spec.kv_heads < 1 || spec.heads % spec.kv_heads != 0) {
    throw ConfigError(concat(spec.heads, " heads cannot share ", spec.kv_heads,
                             " heads of keys and values; choose a divisor"));
  }
  if (spec.hidden < 1) {
    throw ConfigError(concat("the model's hidden size must be at least 1, not ", spec.hidden));
  }
  if (spec.width / spec.heads % 2 != 0) {
    throw ConfigError(concat("heads of ", spec.width / spec.heads, " columns (", spec.width, " / ",
                             spec.heads, ") have no pairs to rotate; the number must be even"));
  }
}

std::string LlamaModel::sizes() const {
  return concat(spec_.heads, " heads with ", spec_.kv_heads, " of keys and values, width ",
                spec_.width, ", hidden ", spec_.hidden, ", ", spec_.layers, " layers");
}

std::vector<std::pair<std::string, std::string>> LlamaModel::traits() const {
  auto all = TokenModel::traits();
  all.emplace_back("kv_heads", std::to_string(spec_.kv_heads));
  all.emplace_back("rope_theta", concat(spec_.rotary.theta));
  all.emplace_back("norm_eps", concat(spec_.epsilon));
  const auto& scaling = spec_.rotary.scaling;
  all.emplace_back("rope_scaling",
                   scaling ? concat("[", scaling->factor, ", ", scaling->low_freq_factor, ", ",
                                    scaling->high_freq_factor, ", ",
                                    scaling->original_max_position_embeddings, "]")
                           : "[]");
  return all;
}

ModelPtr LlamaModel::with_blocks(std::int64_t blocks) const {
  LlamaSpec spec = spec_;
  spec.layers = blocks;
  return std::make_shared<LlamaModel>(spec);
}

std::string LlamaModel::misfit(const grid::Sizes& sizes, std::int64_t samples) const {
  const nn::ProductKind product = spec_.execution.product;
  std::string reason = spec_.misfit(sizes, samples, spec_.context);
  if (reason.empty()) reason = nn::grouped_misfit(product, spec_.grouped(), sizes, samples);
  for (const nn::LinearSpec& layer :
       LlamaProducts(spec_, "model.layers.0", split_of(spec_, sizes)).all()) {
    if (reason.empty()) reason = nn::linear_misfit(product, layer, sizes);
  }
  if (reason.empty() && spec_.hidden % sizes.y != 0) {
    reason = concat("a hidden size of ", spec_.hidden, " cannot be split over y=", sizes.y);
  }
  return reason;
}

std::unique_ptr<Part> LlamaModel::make(const Mesh& mesh, std::int64_t samples,
                                       const Stage& stage) const {
  return std::make_unique<Llama>(mesh, spec_, samples, stage);
}

// --- files of Hugging Face's LlamaForCausalLM

FileTensor LlamaModel::file_tensor(const std::string& name, const grid::Shape& shape) const {
  const auto piece = [&](const std::string& end, const std::string& with, std::int64_t rows) {
    std::string other = name;
    other.replace(other.find(end), end.size(), with);
    return FilePiece{.name = other, .shape = {rows, shape[1]}};
  };
  const std::int64_t size = spec_.width / spec_.heads;
  if (name.ends_with("qkv_proj.weight")) {
    return {.pieces = {piece("qkv_proj", "q_proj", spec_.heads * size),
                       piece("qkv_proj", "k_proj", spec_.kv_heads * size),
                       piece("qkv_proj", "v_proj", spec_.kv_heads * size)},
            .order = spec_.grouped().order()};
  }
  if (name.ends_with("gate_up_proj.weight")) {
    // Gate and up alternate, so that every split of the columns keeps them together.
    FileTensor tensor{.pieces = {piece("gate_up_proj", "gate_proj", spec_.hidden),
                                 piece("gate_up_proj", "up_proj", spec_.hidden)}};
    for (std::int64_t i = 0; i < spec_.hidden; ++i) {
      tensor.order.push_back(i);
      tensor.order.push_back(spec_.hidden + i);
    }
    return tensor;
  }
  return {.pieces = {{.name = name, .shape = shape}}};
}

std::string LlamaModel::block_prefix(std::int64_t block) const {
  return concat("model.layers.", block, ".");
}

}  // namespace fourfold::model
