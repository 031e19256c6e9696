// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/attention.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/attention.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/nn/layer.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

namespace {

kernels::AttentionShape kernel_shape(const AttentionShape& s, bool causal) {
  return {.samples = s.samples,
          .queries = s.context,
          .keys = s.context,
          .heads = s.heads,
          .kv_heads = s.heads,
          .head_size = s.head_size,
          .causal = causal,
          .first_sample = s.first_sample,
          .first_head = s.first_head,
          .all_heads = s.all_heads,
          .dropout = s.dropout,
          .key = s.key};
}

/// The parts of columns [head][q|k|v][head_size].
kernels::QueryKeyValue parts_of(const Tensor& qkv, const AttentionShape& s) {
  const auto part = [&](std::int64_t index) -> kernels::Heads {
    return {qkv, {.first = index * s.head_size, .stride = 3 * s.head_size}};
  };
  return {part(0), part(1), part(2)};
}

/// Records `products` matrix products of the type `wide` over all scores of all heads of this rank,
/// for tensors of another type.
void record(const Mesh& mesh, const char* name, const kernels::AttentionShape& s, int products,
            at::ScalarType type, at::ScalarType wide, std::int64_t bytes) {
  const auto scores = static_cast<double>(kernels::computed_scores(s.queries, s.keys, s.causal));
  const double heads = static_cast<double>(s.heads * s.samples);
  const double flops = products * 2 * scores * heads * static_cast<double>(s.head_size);
  mesh.compute(name, {.work = schedule::Work::kAttention,
                      .dtype = tensor::dtype_of(wide),
                      .flops = Flops(flops),
                      .bytes = Bytes(bytes),
                      .widened = wide != type});
}

/// What the backward pass needs of one call.
struct Call {
  AttentionShape shape;
  bool causal = true;
  Saved qkv;
  Saved out;
  Tensor logsum;
};

Tensor forward(const Mesh& mesh, const Tensor& qkv, Call& call) {
  const LayerScope scope(call.shape.layer);
  const kernels::AttentionShape shape = kernel_shape(call.shape, call.causal);
  // The softmax of bf16 is computed in float, and so are the products around it.
  const auto wide = kernels::statistics_type(qkv.scalar_type());
  const Tensor wide_qkv = tensor::cast_for_kernel(mesh, "attention cast", qkv, wide);
  Tensor out = at::empty({qkv.size(0), qkv.size(1) / 3}, wide_qkv.options());
  call.logsum = at::empty({shape.samples, shape.heads, shape.queries}, wide_qkv.options());
  if (mesh.dry()) {
    at::empty({kernels::attention_scratch(shape, false)}, wide_qkv.options());
  } else {
    kernels::attention_forward(shape, parts_of(wide_qkv, call.shape), out, call.logsum);
  }
  record(mesh, "attention", shape, 2, qkv.scalar_type(), wide,
         static_cast<std::int64_t>(wide_qkv.nbytes() + out.nbytes()));
  out = tensor::cast_for_kernel(mesh, "attention cast", out, qkv.scalar_type());
  call.qkv = Saved(qkv);
  call.out = Saved(out);
  return out;
}

Tensor backward(const Mesh& mesh, const Tensor& upstream, const Call& call) {
  const LayerScope scope(call.shape.layer);
  const kernels::AttentionShape shape = kernel_shape(call.shape, call.causal);
  const Tensor& qkv = call.qkv.get();
  const auto wide = call.logsum.scalar_type();
  const Tensor wide_qkv = tensor::cast_for_kernel(mesh, "attention cast", qkv, wide);
  const Tensor out = tensor::cast_for_kernel(mesh, "attention cast", call.out.get(), wide);
  const Tensor gradient = tensor::cast_for_kernel(mesh, "attention cast", upstream, wide);
  Tensor result = at::empty_like(wide_qkv);
  if (mesh.dry()) {
    at::empty({kernels::attention_scratch(shape, true)}, wide_qkv.options());
  } else {
    kernels::attention_backward(shape, parts_of(wide_qkv, call.shape), out, call.logsum, gradient,
                                parts_of(result, call.shape));
  }
  record(mesh, "attention dI", shape, 5, qkv.scalar_type(), wide,
         static_cast<std::int64_t>(2 * wide_qkv.nbytes() + 2 * gradient.nbytes()));
  return tensor::cast_for_kernel(mesh, "attention cast", result, qkv.scalar_type());
}

Tensor attend(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape, bool causal) {
  FOURFOLD_CHECK_EQ(qkv.size(0), shape.samples * shape.context, "rows of attention");
  FOURFOLD_CHECK_EQ(qkv.size(1), 3 * shape.heads * shape.head_size, "columns of attention");
  FOURFOLD_CHECK(qkv.is_contiguous());
  const auto call = std::make_shared<Call>();
  call->shape = shape;
  call->causal = causal;
  return node(
      call->shape.layer, {qkv},
      [&](const variable_list& in) -> variable_list { return {forward(mesh, in[0], *call)}; },
      [&mesh, call](const variable_list& gradients) -> variable_list {
        return {backward(mesh, gradients[0].contiguous(), *call)};
      })[0];
}

}  // namespace

Tensor causal_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape) {
  return attend(mesh, qkv, shape, true);
}

Tensor full_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape) {
  return attend(mesh, qkv, shape, false);
}

Tensor cached_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape,
                        KvCache& cache) {
  const std::int64_t size = shape.head_size;
  const Tensor heads = qkv.view({qkv.size(0), shape.heads, 3 * size});
  const Tensor kv = heads.narrow(2, size, 2 * size).reshape({qkv.size(0), -1});
  return cache.attend(mesh, std::string(shape.layer), kernel_shape(shape, true), qkv,
                      {.first = 0, .stride = 3 * size}, kv);
}

}  // namespace fourfold::nn
