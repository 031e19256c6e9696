// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cases.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include "fourfold/kernels/functions.hpp"

#include "tests/kernels/case_inputs.hpp"

namespace fourfold::test {

namespace {

using at::ScalarType;
using at::Tensor;
using Results = std::vector<Tensor>;

// --- elements

Results gelu(ScalarType type) {
  const Tensor x = some(type);
  Tensor y = at::empty_like(x);
  kernels::gelu_forward(x, y);
  return {y};
}

Results gelu_gradient(ScalarType type) {
  const Tensor x = some(type);
  Tensor dx = at::empty_like(x);
  kernels::gelu_backward(some(type), x, dx);
  return {dx};
}

Results silu(ScalarType type) {
  const Tensor x = some(type);
  Tensor y = at::empty_like(x);
  kernels::silu_forward(x, y);
  Tensor dx = some(type);
  kernels::silu_backward(dx, x, dx);
  return {y, dx};
}

Results swiglu(ScalarType type) {
  const Tensor x = some(type, {kRows, 2 * kWidth});
  Tensor y = zeros(type, {kRows, kWidth});
  kernels::swiglu_forward(x, y);
  Tensor dx = at::empty_like(x);
  kernels::swiglu_backward(some(type), x, dx);
  return {y, dx};
}

// --- norms

Results layer_norm(ScalarType type) {
  const Tensor x = some(type);
  Tensor stats = zeros(wide(type), {2, kRows});
  Tensor y = at::empty_like(x);
  kernels::norm_whole(x, some(wide(type), {kWidth}), some(wide(type), {kWidth}), 1e-5, stats, y);
  return {stats[0], stats[1], y};
}

Results layer_norm_gradient(ScalarType type) {
  const Tensor x = some(type);
  const Tensor scale = some(wide(type), {kWidth});
  Tensor stats = zeros(wide(type), {2, kRows});
  Tensor dx = at::empty_like(x);
  kernels::norm_whole(x, scale, scale, 1e-5, stats, dx);
  Tensor dscale = some(wide(type), {kWidth});
  Tensor dshift = some(wide(type), {kWidth});
  kernels::norm_backward_whole(some(type), x, stats, scale, dscale, dshift, dx);
  return {dx, dscale, dshift};
}

Results layer_norm_in_parts(ScalarType type) {
  const Tensor x = some(type);
  const Tensor dy = some(type);
  const Tensor scale = some(wide(type), {kWidth});
  Tensor stats = zeros(wide(type), {2, kRows});
  kernels::norm_statistics(x, stats);
  const Tensor rstd = at::full({kRows}, 0.875, wide(type));
  Tensor y = at::empty_like(x);
  kernels::norm_apply(x, stats[0], rstd, scale, some(wide(type), {kWidth}), y);
  Tensor sums = zeros(wide(type), {2, kRows});
  Tensor dscale = zeros(wide(type), {kWidth});
  Tensor dshift = zeros(wide(type), {kWidth});
  kernels::norm_backward_sums(dy, x, stats[0], rstd, scale, sums, dscale, dshift);
  Tensor dx = at::empty_like(x);
  kernels::norm_backward_apply(dy, x, stats[0], rstd, scale, sums, 2 * kWidth, dx);
  return {stats[0], stats[1], y, sums[0], sums[1], dscale, dshift, dx};
}

Results rms_norm(ScalarType type) {
  const Tensor x = some(type);
  const Tensor scale = some(wide(type), {kWidth});
  Tensor rstd = zeros(wide(type), {kRows});
  Tensor y = at::empty_like(x);
  kernels::rms_whole(x, scale, 1e-5, rstd, y);
  Tensor dscale = some(wide(type), {kWidth});
  Tensor dx = at::empty_like(x);
  kernels::rms_backward_whole(some(type), x, rstd, scale, dscale, dx);
  return {rstd, y, dscale, dx};
}

Results rms_norm_in_parts(ScalarType type) {
  const Tensor x = some(type);
  const Tensor dy = some(type);
  const Tensor scale = some(wide(type), {kWidth});
  Tensor squares = zeros(wide(type), {kRows});
  kernels::rms_statistics(x, squares);
  Tensor rstd = squares.clone();
  Tensor y = at::empty_like(x);
  kernels::rms_apply(x, rstd, 2 * kWidth, 1e-5, scale, rstd, y);
  Tensor sums = zeros(wide(type), {kRows});
  Tensor dscale = zeros(wide(type), {kWidth});
  kernels::rms_backward_sums(dy, x, rstd, scale, sums, dscale);
  Tensor dx = at::empty_like(x);
  kernels::rms_backward_apply(dy, x, rstd, scale, sums, 2 * kWidth, dx);
  return {squares, rstd, y, sums, dscale, dx};
}

// --- attention, which is computed in float where tensors are bf16

constexpr std::int64_t kContext = 37;
constexpr std::int64_t kHead = 16;

/// Two samples of four heads that share two of keys and values, all in one matrix.
kernels::AttentionShape attention_shape(bool causal, double dropout) {
  return {.samples = 2,
          .queries = kContext,
          .keys = kContext,
          .heads = 4,
          .kv_heads = 2,
          .head_size = kHead,
          .causal = causal,
          .first_sample = 3,
          .first_head = 4,
          .all_heads = 12,
          .dropout = dropout,
          .key = kernels::key_of(4, "attention")};
}

/// Columns [two heads of q | k | v], twice.
kernels::QueryKeyValue heads_of(const Tensor& matrix) {
  const std::int64_t stride = 4 * kHead;
  return {{matrix, {.first = 0, .stride = stride, .group = 2}},
          {matrix, {.first = 2 * kHead, .stride = stride}},
          {matrix, {.first = 3 * kHead, .stride = stride}}};
}

Results attention(ScalarType of_tensors, bool causal, double dropout) {
  const ScalarType type = wide(of_tensors);
  const auto shape = attention_shape(causal, dropout);
  const Tensor qkv = some(type, {2 * kContext, 8 * kHead});
  Tensor out = zeros(type, {2 * kContext, 4 * kHead});
  Tensor logsum = zeros(type, {2, 4, kContext});
  kernels::attention_forward(shape, heads_of(qkv), out, logsum);
  const Tensor gradient = at::empty_like(qkv);
  kernels::attention_backward(shape, heads_of(qkv), out, logsum, some(type, out.sizes()),
                              heads_of(gradient));
  return {out, logsum, gradient};
}

/// The last three positions of texts whose keys lie in a cache with room for more.
Results cached_attention(ScalarType of_tensors) {
  const ScalarType type = wide(of_tensors);
  auto shape = attention_shape(true, 0);
  shape.queries = 3;
  const Tensor q = some(type, {6, 4 * kHead});
  const Tensor kv = some(type, {2 * (kContext + 5), 4 * kHead});
  Tensor out = zeros(type, {6, 4 * kHead});
  Tensor logsum = zeros(type, {2, 4, 3});
  const auto cached = [&](std::int64_t first) -> kernels::Heads {
    return {kv, {.first = first, .stride = 2 * kHead}, kContext + 5};
  };
  kernels::attention_forward(shape, {{q, {.stride = kHead}}, cached(0), cached(kHead)}, out,
                             logsum);
  return {out, logsum};
}

// --- the vocabulary

Results loss(ScalarType type) {
  const grid::Range here{5, 5 + kWidth - 2};
  Tensor logits = some(type).mul_(4);
  const Tensor targets = at::arange(kRows, at::kLong).mul(3);  // some of them elsewhere
  Tensor largest = zeros(wide(type), {kRows});
  kernels::row_maxima(logits, kWidth - 2, largest);
  Tensor sums = zeros(wide(type), {2, kRows});
  kernels::exponentials(logits, kWidth - 2, largest, targets, here, sums);
  const Tensor exponentials = logits.clone();
  kernels::softmax_loss_gradient(logits, sums, targets, here, 0.25);
  return {largest, sums[0], sums[1], exponentials, logits};
}

Results token_gradient(ScalarType type) {
  Tensor table = some(wide(type), {20, 2 * kWidth});
  const Tensor tokens = at::arange(kRows, at::kLong).mul(7).remainder(31);
  kernels::add_to_rows(some(type, {2, kRows, kWidth}), tokens, {5, 25}, table);
  return {table};
}

Results lookup(ScalarType type) {
  const Tensor tokens = at::arange(kRows, at::kLong).mul(7).remainder(31);
  Tensor out = some(type, {2, kRows, kWidth});
  kernels::lookup_rows(some(type, {20, 2 * kWidth}), tokens, {5, 25}, out);
  Tensor nothing = some(type, {2, kRows, kWidth});
  kernels::lookup_rows(some(type, {20, 2 * kWidth}), tokens, {5, 5}, nothing);
  return {out, nothing};
}

// --- sums and products

Results mixed_sums(ScalarType type) {
  const Tensor matrix = some(type);
  const Tensor sums = kernels::column_sums(matrix);
  const Tensor sum = some(wide(type));
  kernels::add_to(sum, matrix);
  const Tensor part = some(type, {kRows, 2 * kWidth}).narrow(1, 3, kWidth);
  kernels::add_to(matrix, part);
  kernels::add_to_rows_of(matrix, some(wide(type), {kWidth}));
  return {sums, sum, matrix};
}

Results products(ScalarType type) {
  const Tensor a = some(type, {kRows, 64});
  const Tensor b = some(type, {kWidth, 64});
  Tensor out = zeros(type, {kRows, kWidth});
  kernels::multiply(out, a, b.t());
  kernels::multiply(out, a, b.t(), kernels::Into::kSum);
  Tensor wider = some(wide(type), {kRows, kWidth});
  kernels::multiply(wider, a, b.t(), kernels::Into::kSum);
  Tensor turned = some(wide(type), {kWidth, kRows});
  kernels::multiply(turned, b, a.t());
  return {out, wider, turned};
}

Results adamw(ScalarType of_tensors) {
  const ScalarType type = wide(of_tensors);
  const Tensor value = some(type);
  const Tensor mean = some(type);
  const Tensor square = some(type).square_();
  const Tensor value_mean = some(type);
  const Tensor copy = type == at::kFloat ? at::zeros({kRows, kWidth}, at::kBFloat16) : value;
  const kernels::AdamStep step{
      .rate = 0.01, .decay = 0.1, .gradient_scale = 0.7, .step = 3, .mean_decay = 0.75};
  kernels::adamw(value, some(type), mean, square, copy, step, value_mean);
  const Tensor squares = at::zeros({1}, at::kDouble);
  kernels::add_squares(value, squares);
  return {value, mean, square, value_mean, squares};
}

// --- rotary embedding and noise

Results column_pieces(ScalarType type) {
  const Tensor stacked = some(type, {3 * kRows, kWidth});
  Tensor rows = at::empty({kRows, 3 * kWidth}, type);
  kernels::merge_pieces(stacked, rows);
  Tensor again = at::empty_like(stacked);
  kernels::stack_pieces(rows, again);
  return {rows, again};
}

Results rotation(ScalarType type) {
  const Tensor table =
      kernels::rotary_table(40, kHead, 10000, {}, at::TensorOptions().dtype(wide(type)));
  const Tensor matrix = some(type, {kRows, 8 * kHead});
  const kernels::RotaryHeads which{.columns = {.first = kHead, .stride = 4 * kHead, .group = 2},
                                   .heads = 3,  // the last group has one
                                   .head_size = kHead,
                                   .positions = 24,
                                   .first_position = 7};
  kernels::rotate_heads(matrix, which, table, kernels::Rotation::kForward);
  const Tensor forward = matrix.clone();
  kernels::rotate_heads(matrix, which, table, kernels::Rotation::kBackward);
  return {forward, matrix};
}

Results mixed_noise(ScalarType type) {
  const Tensor images = some(wide(type), {3, 50});
  const Tensor out = zeros(type, {3, 50});
  const std::vector<double> signal = {0.1, 0.5, 0.9};
  const std::vector<double> noise = {0.9, 0.7, 0.2};
  kernels::mix_noise(images, out, 11, kernels::key_of(3, "noise"), signal, noise);
  return {out};
}

// --- the same bits in every way

Results dropout(ScalarType type) {
  Results results;
  const kernels::Key key = kernels::key_of(3, "dropout");
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1} << 40}) {
    for (const std::int64_t first : {0, 1, 2, 3, 127, 4096}) {
      for (const std::int64_t columns : {1, 5, 64, 301}) {
        const kernels::Window2 window{{row, row + 7}, {first, first + columns}};
        const Tensor in = some(type, {7, columns});
        Tensor out = at::empty_like(in);
        kernels::apply_dropout(in, out, window, key, 0.3);
        Tensor mask = at::empty_like(in);
        kernels::fill_dropout_mask(mask, window, key, 0.3, 1 / 0.7);
        results.insert(results.end(), {out, mask});
      }
    }
  }
  return results;
}

Results drawn(ScalarType of_tensors) {
  const ScalarType type = wide(of_tensors);
  Tensor weights = some(type, {13, 24});
  kernels::fill_normal(weights, {40, 30}, {{{20, 30}, {7, 25}}}, kernels::key_of(3, "weights"),
                       0.02);
  const Tensor noise = some(type, {3, 50});
  kernels::fill_noise(noise, 11, kernels::key_of(3, "noise"));
  return {weights, noise};
}

Results exchanged(ScalarType of_tensors) {
  const ScalarType type = wide(of_tensors);
  const Tensor a = some(type);
  const Tensor b = some(type);
  const Tensor copy = type == at::kFloat ? at::zeros({kRows, kWidth}, at::kBFloat16) : a;
  kernels::exchange(a, b, copy);
  return {a, b, copy};
}

std::vector<KernelCase> all_cases() {
  std::vector<KernelCase> cases = {
      {"GELU", gelu},
      {"GELU, gradient", gelu_gradient},
      {"SiLU and its gradient", silu},
      {"SwiGLU and its gradient", swiglu},
      {"layer norm", layer_norm},
      {"layer norm, gradients", layer_norm_gradient},
      {"layer norm in parts", layer_norm_in_parts},
      {"RMS norm and its gradients", rms_norm},
      {"RMS norm in parts", rms_norm_in_parts},
      {"causal attention and its gradient", [](ScalarType t) { return attention(t, true, 0); }},
      {"attention to all", [](ScalarType t) { return attention(t, false, 0); }},
      {"attention with dropout", [](ScalarType t) { return attention(t, true, 0.25); }},
      {"attention with a cache", cached_attention},
      {"loss over a part of the vocabulary", loss},
      {"gradient of the token table", token_gradient},
      {"sums of mixed types", mixed_sums},
      {"products", products},
      {"AdamW, sum of squares", adamw},
      {"rotary embedding", rotation},
      {"images with noise", mixed_noise}};
  const auto images = image_kernel_cases();
  cases.insert(cases.end(), images.begin(), images.end());
  return cases;
}

}  // namespace

const std::vector<KernelCase>& kernel_cases() {
  static const std::vector<KernelCase> cases = all_cases();
  return cases;
}

const std::vector<KernelCase>& exact_kernel_cases() {
  static const std::vector<KernelCase> cases = {{"dropout", dropout},
                                                {"weights and noise", drawn},
                                                {"exchange", exchanged},
                                                {"lookup of tokens", lookup},
                                                {"columns in pieces", column_pieces}};
  return cases;
}

double relative_error(const Tensor& found, const Tensor& expected) {
  const Tensor right = expected.to(at::kDouble);
  const double size = right.abs().max().item<double>();
  return at::sub(found.to(at::kDouble), right).abs().max().item<double>() / size;
}

}  // namespace fourfold::test
