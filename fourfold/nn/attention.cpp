// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/attention.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/attention.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/nn/function.hpp"

namespace fourfold::nn {

namespace {

kernels::AttentionShape kernel_shape(const AttentionShape& s) {
  return {.samples = s.samples,
          .queries = s.context,
          .keys = s.context,
          .heads = s.heads,
          .kv_heads = s.heads,
          .head_size = s.head_size,
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

/// Records `products` matrix products over all scores of all heads of this rank.
void record(const Mesh& mesh, const char* name, const AttentionShape& s, int products,
            std::int64_t bytes) {
  const LayerScope scope(s.layer);
  const double scores = static_cast<double>(kernels::computed_scores(s.context, s.context));
  const double heads = static_cast<double>(s.heads * s.samples);
  mesh.compute(name, products * 2 * scores * heads * static_cast<double>(s.head_size), bytes);
}

class AttentionFunction : public torch::autograd::Function<AttentionFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Mesh* mesh,
                        const AttentionShape& shape) {
    remember(context, *mesh);
    keep(context, shape);
    // The softmax of bf16 is computed in float, and so are the products around it.
    const auto wide = kernels::statistics_type(qkv.scalar_type());
    const Tensor wide_qkv = qkv.to(wide);
    Tensor out = at::empty({qkv.size(0), qkv.size(1) / 3}, wide_qkv.options());
    Tensor logsum = at::empty({shape.samples, shape.heads, shape.context}, wide_qkv.options());
    if (mesh->dry()) {
      at::empty({kernels::attention_scratch(kernel_shape(shape), false)}, wide_qkv.options());
    } else {
      kernels::attention_forward(kernel_shape(shape), parts_of(wide_qkv, shape), out, logsum);
    }
    out = out.to(qkv.scalar_type());
    record(*mesh, "attention", shape, 2, static_cast<std::int64_t>(qkv.nbytes() + out.nbytes()));
    context->save_for_backward({qkv, out, logsum});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Mesh& mesh = remembered<Mesh>(context);
    const AttentionShape& shape = kept<AttentionShape>(context);
    const auto saved = context->get_saved_variables();
    const Tensor& qkv = saved[0];
    const Tensor& logsum = saved[2];
    const auto wide = logsum.scalar_type();
    const Tensor wide_qkv = qkv.to(wide);
    const Tensor out = saved[1].to(wide);
    const Tensor gradient = gradients[0].contiguous().to(wide);
    Tensor result = at::empty_like(wide_qkv);
    if (mesh.dry()) {
      at::empty({kernels::attention_scratch(kernel_shape(shape), true)}, wide_qkv.options());
    } else {
      kernels::attention_backward(kernel_shape(shape), parts_of(wide_qkv, shape), out, logsum,
                                  gradient, parts_of(result, shape));
    }
    record(mesh, "attention dI", shape, 5,
           static_cast<std::int64_t>(2 * qkv.nbytes() + 2 * saved[1].nbytes()));
    return {result.to(qkv.scalar_type()), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor causal_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape) {
  FOURFOLD_CHECK_EQ(qkv.size(0), shape.samples * shape.context, "rows of attention");
  FOURFOLD_CHECK_EQ(qkv.size(1), 3 * shape.heads * shape.head_size, "columns of attention");
  FOURFOLD_CHECK(qkv.is_contiguous());
  return AttentionFunction::apply(qkv, &mesh, shape);
}

Tensor cached_attention(const Mesh& mesh, const Tensor& qkv, const AttentionShape& shape,
                        KvCache& cache) {
  const std::int64_t size = shape.head_size;
  const Tensor heads = qkv.view({qkv.size(0), shape.heads, 3 * size});
  const Tensor kv = heads.narrow(2, size, 2 * size).reshape({qkv.size(0), -1});
  return cache.attend(mesh, std::string(shape.layer), kernel_shape(shape), qkv,
                      {.first = 0, .stride = 3 * size}, kv);
}

}  // namespace fourfold::nn
