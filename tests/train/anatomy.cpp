// SPDX-License-Identifier: Apache-2.0
#include "tests/train/anatomy.hpp"

#include <algorithm>

#include "fourfold/model/gpt.hpp"
#include "fourfold/model/llama.hpp"

namespace fourfold::test {

namespace {

using Columns = Anatomy::Columns;

/// Products with biases, and norms with a weight and a bias.
Anatomy anatomy_of(const model::GptSpec& spec) {
  const std::int64_t h = spec.width;
  return {.frame = spec,
          .kv_heads = spec.heads,
          .products = {{h, 3 * h}, {h, h}, {h, 4 * h}, {4 * h, h}},
          .vectors =
              {{h}, {h}, {3 * h, Columns::kAttention}, {h}, {h}, {h}, {4 * h, Columns::kWide}, {h}},
          .last_vectors = {{h}, {h}},
          .layer_norm = true,
          .positions = true};
}

/// No biases. Gate and up are one product.
Anatomy anatomy_of(const model::LlamaSpec& spec) {
  const std::int64_t h = spec.width;
  const std::int64_t head = h / spec.heads;
  return {.frame = spec,
          .kv_heads = spec.kv_heads,
          .products = {{h, (spec.heads + 2 * spec.kv_heads) * head},
                       {h, h},
                       {h, 2 * spec.hidden},
                       {spec.hidden, h}},
          .vectors = {{h}, {h}},
          .last_vectors = {{h}},
          .layer_norm = false,
          .positions = false};
}

}  // namespace

bool Anatomy::divides(std::int64_t ranks) const {
  if (frame.heads % ranks != 0) return false;
  const std::int64_t here = frame.heads / ranks;
  const std::int64_t share = frame.heads / kv_heads;
  // A rank has whole groups of heads, or the ranks that share a group make equal slices of its keys
  // and values.
  if (here % share == 0) return true;
  return share % here == 0 && frame.width / frame.heads % share == 0;
}

std::int64_t Anatomy::sharers(std::int64_t ranks) const {
  const std::int64_t here = frame.heads / ranks;
  return std::max<std::int64_t>(1, frame.heads / kv_heads / here);
}

std::int64_t Anatomy::shared_elements(std::int64_t rows) const {
  return rows * 2 * frame.width / frame.heads;
}

Anatomy anatomy_of(const model::Model& model) {
  if (const auto* llama = dynamic_cast<const model::LlamaModel*>(&model)) {
    return anatomy_of(llama->spec());
  }
  return anatomy_of(dynamic_cast<const model::GptModel&>(model).spec());
}

}  // namespace fourfold::test
