// SPDX-License-Identifier: Apache-2.0
#include "tests/train/reference_training.hpp"

#include <cmath>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include "tests/model/reference.hpp"

namespace fourfold::test {

namespace {

namespace nn_ = torch::nn;
using model::GptSpec;

/// Our masks: the only thing that libtorch cannot know.
struct Masks {
  const GptSpec* spec;
  std::uint64_t step = 0;

  Tensor apply(const Tensor& h, std::int64_t rows, std::int64_t columns,
               const std::string& name) const {
    if (spec->dropout == 0) return h;
    Tensor mask = at::empty({rows, columns}, at::kDouble);
    kernels::fill_dropout_mask(mask, {{0, rows}, {0, columns}},
                               kernels::key_of(kernels::key_of(spec->execution.seed, name), step),
                               spec->dropout, 1 / (1 - spec->dropout));
    return h * mask.view(h.sizes());
  }
  Tensor hidden(const Tensor& h, const std::string& name) const {
    return apply(h, h.size(0) * h.size(1), h.size(2), name);
  }
};

struct BlockImpl : nn_::Module {
  BlockImpl(const GptSpec& spec, std::string prefix)
      : heads(spec.heads), name(std::move(prefix)), eps(1e-5) {
    const std::int64_t w = spec.width;
    ln_1 = register_module("ln_1", nn_::LayerNorm(nn_::LayerNormOptions({w}).eps(eps)));
    c_attn = register_module("c_attn", nn_::Linear(w, 3 * w));
    c_proj = register_module("c_proj", nn_::Linear(w, w));
    ln_2 = register_module("ln_2", nn_::LayerNorm(nn_::LayerNormOptions({w}).eps(eps)));
    c_fc = register_module("c_fc", nn_::Linear(w, 4 * w));
    mlp_proj = register_module("mlp_proj", nn_::Linear(4 * w, w));
  }

  Tensor attention(const Tensor& h, const Masks& masks) {
    const std::int64_t samples = h.size(0);
    const std::int64_t context = h.size(1);
    const std::int64_t size = h.size(2) / heads;
    const Tensor qkv = c_attn(h).view({samples, context, heads, 3, size});
    const auto part = [&](int index) { return qkv.select(3, index).transpose(1, 2); };
    Tensor p = at::matmul(part(0), part(1).transpose(2, 3)) / std::sqrt(double(size));
    p = p.masked_fill(at::ones({context, context}, at::kBool).triu(1), -INFINITY).softmax(-1);
    p = masks.apply(p, samples * heads * context, context, name + ".attn");
    return c_proj(at::matmul(p, part(2)).transpose(1, 2).reshape(h.sizes()));
  }

  Tensor forward(const Tensor& h, const Masks& masks) {
    const Tensor middle = h + masks.hidden(attention(ln_1(h), masks), name + ".attn.drop");
    const Tensor wide = at::gelu(c_fc(ln_2(middle)), "tanh");
    return middle + masks.hidden(mlp_proj(wide), name + ".mlp.drop");
  }

  void load(const Weights& weights) {
    const auto copy = [&](const Tensor& to, const std::string& what) {
      to.detach().copy_(weights.at(name + what));
    };
    copy(ln_1->weight, ".ln_1.weight");
    copy(ln_1->bias, ".ln_1.bias");
    copy(c_attn->weight, ".attn.c_attn.weight");
    copy(c_attn->bias, ".attn.c_attn.bias");
    copy(c_proj->weight, ".attn.c_proj.weight");
    copy(c_proj->bias, ".attn.c_proj.bias");
    copy(ln_2->weight, ".ln_2.weight");
    copy(ln_2->bias, ".ln_2.bias");
    copy(c_fc->weight, ".mlp.c_fc.weight");
    copy(c_fc->bias, ".mlp.c_fc.bias");
    copy(mlp_proj->weight, ".mlp.c_proj.weight");
    copy(mlp_proj->bias, ".mlp.c_proj.bias");
  }

  std::int64_t heads;
  std::string name;
  double eps;
  nn_::LayerNorm ln_1{nullptr};
  nn_::LayerNorm ln_2{nullptr};
  nn_::Linear c_attn{nullptr};
  nn_::Linear c_proj{nullptr};
  nn_::Linear c_fc{nullptr};
  nn_::Linear mlp_proj{nullptr};
};
TORCH_MODULE(Block);

struct PlainGpt : nn_::Module {
  explicit PlainGpt(const GptSpec& spec) : tied(spec.tied) {
    wte = register_module("wte", nn_::Embedding(spec.vocabulary, spec.width));
    wpe = register_module("wpe", nn_::Embedding(spec.context, spec.width));
    for (std::int64_t i = 0; i < spec.layers; ++i) {
      blocks.push_back(register_module(concat("h", i), Block(spec, concat("h.", i))));
    }
    ln_f = register_module("ln_f", nn_::LayerNorm(nn_::LayerNormOptions({spec.width}).eps(1e-5)));
    if (!tied) {
      lm_head = register_module(
          "lm_head", nn_::Linear(nn_::LinearOptions(spec.width, spec.vocabulary).bias(false)));
    }
    to(at::kDouble);
    const Weights weights = initial_weights(spec);
    wte->weight.detach().copy_(weights.at("wte.weight"));
    wpe->weight.detach().copy_(weights.at("wpe.weight"));
    for (Block& block : blocks) block->load(weights);
    ln_f->weight.detach().copy_(weights.at("ln_f.weight"));
    ln_f->bias.detach().copy_(weights.at("ln_f.bias"));
    if (!tied) lm_head->weight.detach().copy_(weights.at("lm_head.weight"));
  }

  Tensor loss(const Tensor& tokens, const Tensor& targets, const Masks& masks) {
    Tensor h = wte(tokens) + wpe(at::arange(tokens.size(1), at::kLong)).unsqueeze(0);
    h = masks.hidden(h, "drop");
    for (Block& block : blocks) h = block(h, masks);
    h = ln_f(h);
    const Tensor logits = tied ? at::linear(h, wte->weight) : lm_head(h);
    return nn_::functional::cross_entropy(logits.flatten(0, 1), targets.flatten());
  }

  bool tied;
  nn_::Embedding wte{nullptr};
  nn_::Embedding wpe{nullptr};
  std::vector<Block> blocks;
  nn_::LayerNorm ln_f{nullptr};
  nn_::Linear lm_head{nullptr};
};

torch::optim::AdamW optimizer_of(PlainGpt& gpt, const optim::AdamWSpec& spec) {
  std::vector<Tensor> matrices;
  std::vector<Tensor> vectors;
  for (const Tensor& p : gpt.parameters()) (p.dim() > 1 ? matrices : vectors).push_back(p);
  const auto options = [&](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(0.0)
                                                            .betas({spec.beta1, spec.beta2})
                                                            .eps(spec.epsilon)
                                                            .weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(matrices, options(spec.decay));
  groups.emplace_back(vectors, options(0));
  return torch::optim::AdamW(groups, torch::optim::AdamWOptions(0.0));
}

}  // namespace

std::vector<train::StepResult> train_reference(const GptRecipe& recipe, std::int64_t steps,
                                               const train::ReadTokens& read) {
  PlainGpt gpt(recipe.model);
  torch::optim::AdamW optimizer = optimizer_of(gpt, recipe.optimizer);
  std::vector<train::StepResult> results;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const Tensor tokens = at::empty({recipe.batch, recipe.model.context}, at::kLong);
    const Tensor targets = at::empty_like(tokens);
    for (std::int64_t i = 0; i < recipe.batch; ++i) {
      read((step - 1) * recipe.batch + i,
           tokens.data_ptr<std::int64_t>() + i * recipe.model.context,
           targets.data_ptr<std::int64_t>() + i * recipe.model.context);
    }
    const double rate = recipe.learning_rate.at(step);
    for (auto& group : optimizer.param_groups()) {
      static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
    }
    optimizer.zero_grad();
    const Tensor loss =
        gpt.loss(tokens, targets, {&recipe.model, static_cast<std::uint64_t>(step)});
    loss.backward();
    const double norm = nn_::utils::clip_grad_norm_(gpt.parameters(), recipe.clip);
    optimizer.step();
    results.push_back({loss.item<double>(), norm, rate});
  }
  return results;
}

}  // namespace fourfold::test
