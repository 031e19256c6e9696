// SPDX-License-Identifier: Apache-2.0
#include "tests/model/reference.hpp"

#include <cmath>

#include <ATen/ATen.h>

#include "fourfold/comm/self/self.hpp"

namespace fourfold::test {

namespace {

using model::GptSpec;

class Reference {
 public:
  Reference(const GptSpec& spec, const Weights& weights, std::int64_t samples, std::uint64_t step,
            bool training)
      : spec_(spec), weights_(weights), samples_(samples), step_(step), training_(training) {}

  Tensor logits(const Tensor& tokens) const {
    const std::int64_t context = tokens.size(1);
    Tensor h =
        at::embedding(w("wte.weight"), tokens) + w("wpe.weight").narrow(0, 0, context).unsqueeze(0);
    h = drop(h, "drop");
    for (std::int64_t i = 0; i < spec_.layers; ++i) h = block(h, concat("h.", i));
    h = norm(h, "ln_f");
    return at::linear(h, w(spec_.tied ? "wte.weight" : "lm_head.weight"));
  }

 private:
  const Tensor& w(const std::string& name) const { return weights_.at(name); }

  Tensor norm(const Tensor& h, const std::string& name) const {
    return at::layer_norm(h, {spec_.width}, w(name + ".weight"), w(name + ".bias"), 1e-5);
  }
  Tensor linear(const Tensor& h, const std::string& name) const {
    return at::linear(h, w(name + ".weight"), w(name + ".bias"));
  }

  kernels::Key key(const std::string& name) const {
    return kernels::key_of(kernels::key_of(spec_.execution.seed, name), step_);
  }

  Tensor mask(std::int64_t rows, std::int64_t columns, const std::string& name) const {
    Tensor mask = at::empty({rows, columns}, at::kDouble);
    kernels::fill_dropout_mask(mask, {{0, rows}, {0, columns}}, key(name), spec_.dropout,
                               1 / (1 - spec_.dropout));
    return mask;
  }

  Tensor drop(const Tensor& h, const std::string& name) const {
    if (!training_ || spec_.dropout == 0) return h;
    return h * mask(h.size(0) * h.size(1), h.size(2), name).view(h.sizes()).to(h.scalar_type());
  }

  Tensor attention(const Tensor& h, const std::string& name) const {
    const std::int64_t context = h.size(1);
    const std::int64_t size = spec_.width / spec_.heads;
    const Tensor qkv = linear(h, name + ".c_attn").view({samples_, context, spec_.heads, 3, size});
    const auto part = [&](int index) { return qkv.select(3, index).transpose(1, 2); };
    Tensor scores = at::matmul(part(0), part(1).transpose(2, 3)) / std::sqrt(double(size));
    const Tensor above = at::ones({context, context}, at::kBool).triu(1);
    Tensor p = scores.masked_fill(above, -INFINITY).softmax(-1);
    if (training_ && spec_.dropout > 0) {
      p = p *
          mask(samples_ * spec_.heads * context, context, name).view(p.sizes()).to(p.scalar_type());
    }
    const Tensor mixed = at::matmul(p, part(2)).transpose(1, 2).reshape(h.sizes());
    return drop(linear(mixed, name + ".c_proj"), name + ".drop");
  }

  Tensor block(const Tensor& h, const std::string& name) const {
    const Tensor middle = h + attention(norm(h, name + ".ln_1"), name + ".attn");
    const Tensor wide = at::gelu(linear(norm(middle, name + ".ln_2"), name + ".mlp.c_fc"), "tanh");
    return middle + drop(linear(wide, name + ".mlp.c_proj"), name + ".mlp.drop");
  }

  const GptSpec& spec_;
  const Weights& weights_;
  std::int64_t samples_;
  std::uint64_t step_;
  bool training_;
};

}  // namespace

Weights weights_of(const model::Model& model) {
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  const auto part = model.make(mesh, 1, model.whole());
  Weights weights;
  for (const nn::ParameterPtr& parameter : part->parameters()) {
    weights[parameter->name()] = parameter->value().detach();
  }
  return weights;
}

Weights initial_weights(const GptSpec& spec) {
  GptSpec wide = spec;
  wide.execution.precision = {spec.execution.precision.master, spec.execution.precision.master};
  return weights_of(model::GptModel(wide));
}

Weights initial_weights(const model::LlamaSpec& spec) {
  model::LlamaSpec wide = spec;
  nn::Precision& precision = wide.execution.precision;
  precision.compute = precision.master;
  return weights_of(model::LlamaModel(wide));
}

Weights perturbed(const Weights& weights) {
  Weights result;
  for (const auto& [name, value] : weights) {
    Tensor noise = at::empty_like(value);
    grid::Block whole;
    for (const std::int64_t size : value.sizes()) whole.ranges.push_back({0, size});
    kernels::fill_normal(noise, value.sizes().vec(), whole, kernels::key_of(99, name), 0.3);
    result[name] = value + noise;
  }
  return result;
}

Weights in_float64(const Weights& weights, const nn::Precision& precision) {
  Weights result;
  for (const auto& [name, value] : weights) {
    const bool matrix = value.dim() == 2;
    result[name] = value.to(matrix ? precision.compute : precision.master).to(at::kDouble);
  }
  return result;
}

ReferenceResult run_reference(const LogitsOf& logits_of, const Weights& weights,
                              const Tensor& tokens, const Tensor& targets) {
  Weights leaves;
  for (const auto& [name, value] : weights) {
    leaves[name] = value.detach().clone().set_requires_grad(true);
  }
  const Tensor logits = logits_of(leaves, tokens);
  const Tensor loss = at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
  loss.backward();
  ReferenceResult result;
  result.logits = logits.detach();
  result.loss = loss.item<double>();
  double squares = 0;
  for (const auto& [name, leaf] : leaves) {
    result.gradients[name] = leaf.grad();
    squares += leaf.grad().square().sum().item<double>();
  }
  result.norm = std::sqrt(squares);
  return result;
}

ReferenceResult run_reference(const GptSpec& spec, const Weights& weights, const Tensor& tokens,
                              const Tensor& targets, std::uint64_t step, bool training) {
  const auto logits = [&](const Weights& leaves, const Tensor& in) {
    return Reference(spec, leaves, in.size(0), step, training).logits(in);
  };
  return run_reference(logits, weights, tokens, targets);
}

Tensor some_tokens(std::int64_t samples, std::int64_t context, std::int64_t vocabulary, int seed) {
  Tensor tokens = at::empty({samples, context}, at::kLong);
  auto* out = tokens.data_ptr<std::int64_t>();
  const kernels::Key key = kernels::key_of(static_cast<std::uint64_t>(seed), "tokens");
  for (std::int64_t i = 0; i < tokens.numel(); ++i) {
    out[i] = static_cast<std::int64_t>(kernels::key_of(key, static_cast<std::uint64_t>(i)).value %
                                       static_cast<std::uint64_t>(vocabulary));
  }
  return tokens;
}

Tensor block_of(const Tensor& whole, const grid::Block& block) {
  Tensor part = whole;
  for (std::size_t d = 0; d < block.ranges.size(); ++d) {
    part = part.narrow(static_cast<std::int64_t>(d), block.ranges[d].begin, block.ranges[d].size());
  }
  return part;
}

double relative_error(const Tensor& a, const Tensor& b, const Tensor& scale) {
  if (a.numel() == 0) return 0;
  return ((a - b).abs().max() / scale.abs().max()).item<double>();
}

}  // namespace fourfold::test
