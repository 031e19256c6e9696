// SPDX-License-Identifier: Apache-2.0
#include "tests/model/unet_reference.hpp"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "fourfold/base/text.hpp"

namespace fourfold::test {

namespace {

using model::UNetSpec;

/// The network by the definition of improved-diffusion, with pictures samples × channels × height ×
/// width. It concatenates where ours has several terms.
class Reference {
 public:
  Reference(const UNetSpec& spec, const Weights& ours, std::uint64_t step, bool training)
      : spec_(spec), ours_(ours), step_(step), training_(training) {}

  Tensor predict(const Tensor& picture, const Tensor& times) {
    embedding_ = embed(times);
    Tensor h = conv(picture, "input_blocks.0.0", 1);
    std::vector<Tensor> left = {h};
    int number = 1;
    for (std::size_t level = 0; level < spec_.multipliers.size(); ++level) {
      for (std::int64_t i = 0; i < spec_.blocks; ++i) {
        h = level_block(h, concat("input_blocks.", number++));
        left.push_back(h);
      }
      if (level + 1 == spec_.multipliers.size()) break;
      h = conv(h, concat("input_blocks.", number++, ".0.op"), 2);
      left.push_back(h);
    }
    h = residual(h, "middle_block.0");
    h = attention(h, "middle_block.1");
    h = residual(h, "middle_block.2");
    number = 0;
    for (std::size_t level = spec_.multipliers.size(); level-- > 0;) {
      for (std::int64_t i = 0; i <= spec_.blocks; ++i) {
        const std::string name = concat("output_blocks.", number++);
        const bool attends = has_attention(h);
        h = level_block(at::cat({h, left.back()}, 1), name);
        left.pop_back();
        if (level == 0 || i < spec_.blocks) continue;
        h = at::upsample_nearest2d(h, {2 * h.size(2), 2 * h.size(3)});
        h = conv(h, name + (attends ? ".2.conv" : ".1.conv"), 1);
      }
    }
    return conv(at::silu(norm(h, "out.0")), "out.2", 1);
  }

 private:
  /// A parameter, or two that are one in the definition.
  Tensor w(const std::string& name) const {
    const auto found = ours_.find(name);
    if (found != ours_.end()) return found->second;
    const Tensor& first = ours_.at(name + ".0");
    return at::cat({first, ours_.at(name + ".1")}, first.dim() - 1);
  }
  bool has(const std::string& name) const {
    return ours_.count(name) + ours_.count(name + ".0") > 0;
  }

  Tensor conv(const Tensor& h, const std::string& name, std::int64_t stride) const {
    const Tensor weight = w(name + ".weight");
    const auto size = static_cast<std::int64_t>(std::sqrt(weight.size(1)));
    const Tensor window =
        weight.view({weight.size(0), size, size, weight.size(2)}).permute({0, 3, 1, 2});
    return at::conv2d(h, window, w(name + ".bias"), stride, size / 2);
  }
  Tensor norm(const Tensor& h, const std::string& name) const {
    return at::group_norm(h, spec_.groups, w(name + ".weight"), w(name + ".bias"), 1e-5);
  }
  Tensor linear(const Tensor& h, const std::string& name) const {
    return at::linear(h, w(name + ".weight").flatten(1), w(name + ".bias"));
  }

  Tensor embed(const Tensor& times) const {
    const std::int64_t half = spec_.channels / 2;
    const Tensor speeds = at::exp(at::arange(half, times.options()) *
                                  (-std::log(10000.0) / static_cast<double>(half)));
    const Tensor angles = times.view({-1, 1}) * speeds.view({1, -1});
    const Tensor features = at::cat({angles.cos(), angles.sin()}, 1);
    return linear(at::silu(linear(features, "time_embed.0")), "time_embed.2");
  }

  bool has_attention(const Tensor& h) const {
    return std::count(spec_.attention.begin(), spec_.attention.end(), h.size(2)) > 0;
  }
  Tensor level_block(const Tensor& h, const std::string& name) const {
    const Tensor out = residual(h, name + ".0");
    return has_attention(out) ? attention(out, name + ".1") : out;
  }

  Tensor drop(const Tensor& h, const std::string& name) const {
    if (!training_ || spec_.dropout == 0) return h;
    const std::int64_t rows = h.size(0) * h.size(2) * h.size(3);
    Tensor mask = at::empty({rows, h.size(1)}, at::kDouble);
    const kernels::Key key = kernels::key_of(kernels::key_of(spec_.execution.seed, name), step_);
    kernels::fill_dropout_mask(mask, {{0, rows}, {0, h.size(1)}}, key, spec_.dropout,
                               1 / (1 - spec_.dropout));
    return h * mask.view({h.size(0), h.size(2), h.size(3), -1}).permute({0, 3, 1, 2});
  }

  Tensor residual(const Tensor& input, const std::string& name) const {
    Tensor h = conv(at::silu(norm(input, name + ".in_layers.0")), name + ".in_layers.2", 1);
    // Our rows are [channel][scale|shift].
    const Tensor pairs =
        linear(at::silu(embedding_), name + ".emb_layers.1").view({input.size(0), -1, 2, 1, 1});
    h = norm(h, name + ".out_layers.0") * (1 + pairs.select(2, 0)) + pairs.select(2, 1);
    h = drop(at::silu(h), name + ".out_layers.2");
    h = conv(h, name + ".out_layers.3", 1);
    const bool convolves = has(name + ".skip_connection.weight");
    return h + (convolves ? conv(input, name + ".skip_connection", 1) : input);
  }

  Tensor attention(const Tensor& input, const std::string& name) const {
    const std::int64_t pixels = input.size(2) * input.size(3);
    const Tensor qkv = conv(norm(input, name + ".norm"), name + ".qkv", 1)
                           .view({input.size(0), spec_.heads, 3, -1, pixels});
    const auto part = [&](int index) { return qkv.select(2, index); };
    const double scale = 1 / std::sqrt(static_cast<double>(qkv.size(3)));
    const Tensor p = at::softmax(at::matmul(part(0).transpose(2, 3), part(1)) * scale, -1);
    const Tensor mixed = at::matmul(part(2), p.transpose(2, 3)).reshape(input.sizes());
    return input + conv(mixed, name + ".proj_out", 1);
  }

  const UNetSpec& spec_;
  const Weights& ours_;
  std::uint64_t step_;
  bool training_;
  Tensor embedding_;
};

}  // namespace

UNetSpec small_unet() {
  UNetSpec spec;
  spec.image = 4;
  spec.colours = 1;
  spec.channels = 24;
  spec.multipliers = {1, 2, 2};
  spec.blocks = 1;
  spec.attention = {2};
  spec.heads = 24;
  spec.groups = 4;
  spec.execution.precision = nn::Precision::float64();
  spec.execution.seed = 11;
  return spec;
}

Weights initial_weights(const UNetSpec& spec) {
  UNetSpec wide = spec;
  wide.execution.precision.compute = wide.execution.precision.master;
  return weights_of(model::UNetModel(wide));
}

Tensor some_images(const UNetSpec& spec, std::int64_t first, std::int64_t samples) {
  Tensor images = at::empty({samples, spec.pixels(), spec.colours}, at::kDouble);
  auto* value = images.data_ptr<double>();
  for (std::int64_t i = 0; i < samples; ++i) {
    for (std::int64_t k = 0; k < spec.pixels() * spec.colours; ++k) {
      *value++ = std::sin(static_cast<double>((first + i) * 7 + k * (2 + (first + i) % 3)));
    }
  }
  return images;
}

Tensor unet_prediction(const UNetSpec& spec, const Weights& weights, const Tensor& images,
                       const Tensor& times, std::uint64_t step, bool training) {
  const Tensor picture =
      images.view({-1, spec.image, spec.image, spec.colours}).permute({0, 3, 1, 2});
  return Reference(spec, weights, step, training)
      .predict(picture, times)
      .permute({0, 2, 3, 1})
      .reshape({images.size(0), spec.pixels(), spec.outputs()});
}

UNetResult run_unet_reference(const UNetSpec& spec, const Weights& weights, const Tensor& images,
                              std::uint64_t step, bool training) {
  Weights leaves;
  for (const auto& [name, value] : weights) {
    leaves[name] = value.detach().clone().set_requires_grad(true);
  }
  UNetResult result;
  const model::Noise schedule(spec.noise);
  const nn::Batch batch{.samples = images.size(0), .context = spec.pixels(), .step = step};
  const model::NoiseKeys keys(spec.execution.seed, batch, training);
  result.times = schedule.draw_times({0, images.size(0)}, keys.times, at::kDouble, at::kCPU);
  const Tensor noise = model::draw_noise(images, 0, keys.noise);
  result.noised = at::empty_like(images);
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    const double kept = schedule.alpha_cumprod(result.times[i].item<std::int64_t>());
    result.noised[i].copy_(std::sqrt(kept) * images[i] + std::sqrt(1 - kept) * noise[i]);
  }
  const Tensor prediction =
      unet_prediction(spec, leaves, result.noised, result.times, step, training);
  const Tensor loss = (noise - prediction.narrow(2, 0, spec.colours)).square().mean();
  loss.backward();
  result.prediction = prediction.detach();
  result.loss = loss.item<double>();
  for (const auto& [name, leaf] : leaves) {
    result.gradients[name] = leaf.grad();
    result.largest = std::max(result.largest, leaf.grad().abs().max().item<double>());
  }
  return result;
}

}  // namespace fourfold::test
