// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/pixel_attention.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/nn/attention.hpp"

namespace fourfold::nn {

namespace {

/// The numbers that divide `heads`: "1, 2, 4".
std::string sizes_that_divide(std::int64_t heads) {
  std::vector<std::string> list;
  for (const int size : grid::divisors(static_cast<int>(heads))) list.push_back(concat(size));
  return join(list, ", ");
}

std::int64_t produced_ranks(const PixelAttentionSpec& spec, const grid::Sizes& sizes) {
  return spec.transposed ? sizes.x : sizes.y;
}

}  // namespace

std::string pixel_attention_misfit(const PixelAttentionSpec& spec, const grid::Sizes& sizes) {
  if (spec.heads < 1 || spec.channels % spec.heads != 0) {
    return concat(spec.name, ": ", spec.channels, " channels cannot be divided into ", spec.heads,
                  " heads; choose model.heads that divides them");
  }
  const std::int64_t produced = produced_ranks(spec, sizes);
  if (spec.heads % produced == 0) return {};
  const char* axis = spec.transposed ? "x" : "y";
  return concat(spec.name, ": ", spec.heads, " heads cannot be split over ", axis, " = ", produced,
                "; choose a size of ", axis, " that divides them (", sizes_that_divide(spec.heads),
                ")");
}

Spread pixel_attention_spread(const PixelAttentionSpec& spec, const grid::Sizes& sizes) {
  const std::string reason = pixel_attention_misfit(spec, sizes);
  if (!reason.empty()) throw ConfigError(reason);
  const bool whole_heads = spec.heads % (std::int64_t{sizes.x} * sizes.y) == 0;
  return whole_heads ? Spread::kColumns : Spread::kCopies;
}

Tensor pixel_attention(const Mesh& mesh, const Tensor& qkv, const PixelAttentionSpec& spec,
                       std::int64_t samples, std::string_view layer) {
  const std::int64_t size = spec.channels / spec.heads;
  FOURFOLD_CHECK_EQ(qkv.size(1) % (3 * size), 0, spec.name, ": a rank has whole heads");
  return full_attention(mesh, qkv,
                        {.samples = samples,
                         .context = qkv.size(0) / samples,
                         .heads = qkv.size(1) / (3 * size),
                         .head_size = size,
                         .all_heads = spec.heads,
                         .layer = layer});
}

double pixel_attention_flops(const PixelAttentionSpec& spec, std::int64_t samples,
                             std::int64_t pixels) {
  return 4.0 * static_cast<double>(pixels * pixels) * static_cast<double>(spec.channels * samples);
}

}  // namespace fourfold::nn
