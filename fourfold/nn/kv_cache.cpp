// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/kv_cache.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/tensor/dtype.hpp"

namespace fourfold::nn {

KvCache::Stored& KvCache::with_room(const std::string& layer, std::int64_t samples,
                                    std::int64_t positions, const Tensor& like) {
  constexpr std::int64_t kLeast = 64;
  Stored& stored = layers_[layer];
  if (stored.capacity >= positions) return stored;
  const std::int64_t capacity = std::max({kLeast, 2 * stored.capacity, positions});
  Tensor rows = at::empty({samples * capacity, like.size(1)}, like.options());
  if (stored.rows.defined()) {
    rows.view({samples, capacity, -1})
        .narrow(1, 0, length_)
        .copy_(stored.rows.view({samples, stored.capacity, -1}).narrow(1, 0, length_));
  }
  stored = {rows, capacity};
  return stored;
}

Tensor KvCache::attend(const Mesh& mesh, const std::string& layer, kernels::AttentionShape shape,
                       const Tensor& q, const kernels::HeadColumns& columns, const Tensor& kv) {
  FOURFOLD_CHECK(!at::GradMode::is_enabled(), layer,
                 ": a cache is for generating, without a graph");
  const std::int64_t added = shape.queries;
  shape.keys = length_ + added;
  // The softmax of bf16 is computed in float, and so are the products around it.
  const auto wide = kernels::statistics_type(q.scalar_type());
  const Tensor wide_kv = kv.to(wide);
  const Stored& stored = with_room(layer, shape.samples, shape.keys, wide_kv);
  stored.rows.view({shape.samples, stored.capacity, -1})
      .narrow(1, length_, added)
      .copy_(wide_kv.view({shape.samples, added, -1}));
  const Tensor wide_q = q.to(wide);
  Tensor out = at::empty({q.size(0), shape.heads * shape.head_size}, wide_q.options());
  Tensor logsum = at::empty({shape.samples, shape.heads, added}, wide_q.options());
  const std::int64_t stride = 2 * shape.head_size;
  const kernels::QueryKeyValue qkv{
      {wide_q, columns},
      {stored.rows, {.first = 0, .stride = stride}, stored.capacity},
      {stored.rows, {.first = shape.head_size, .stride = stride}, stored.capacity}};
  kernels::attention_forward(shape, qkv, out, logsum);
  const LayerScope scope(layer);
  const auto scores = static_cast<double>(kernels::computed_scores(added, shape.keys));
  const auto heads = static_cast<double>(shape.heads * shape.samples);
  const double flops = 4 * scores * heads * static_cast<double>(shape.head_size);
  const std::int64_t row = stored.rows.size(1) * stored.rows.element_size();
  mesh.compute("attention", {.work = schedule::Work::kAttention,
                             .dtype = tensor::dtype_of(wide),
                             .flops = Flops(flops),
                             .bytes = Bytes(shape.samples * shape.keys * row),
                             .widened = wide != q.scalar_type()});
  return out.to(q.scalar_type());
}

}  // namespace fourfold::nn
