// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/grouped_attention.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using kernels::HeadColumns;

namespace {

/// The axes that split the heads.
Axes axes_of(HeadSplit split) {
  switch (split) {
    case HeadSplit::kHeads:
      return {Axis::kY, Axis::kX};
    case HeadSplit::kSamples:
      return Axis::kY;
    case HeadSplit::kSquare:
      break;
  }
  return Axis::kX;
}

}  // namespace

GroupedAttention::GroupedAttention(const Mesh& mesh, const std::string& name,
                                   const GroupedHeads& heads, HeadSplit split, const Rotary& rotary)
    : Layer(mesh, name),
      heads_(heads),
      split_(split),
      rotary_(rotary),
      over_(axes_of(split)),
      local_(heads.heads / mesh.size(over_)),
      kv_local_(std::max<std::int64_t>(1, local_ / heads.group())) {
  const std::string reason = heads.misfit(mesh.size(over_));
  if (!reason.empty()) throw ConfigError(concat(name, ": ", reason));
  const std::int64_t sharers = std::max<std::int64_t>(1, heads.group() / local_);
  if (sharers > 1) sharing_ = &mesh.join_part(over_, static_cast<int>(sharers));
}

double GroupedAttention::flops(const Batch& batch) const {
  return attention_flops(heads_.heads * heads_.head_size, batch);
}

// --- where things are

std::int64_t GroupedAttention::pitch() const {
  return heads_.head_size + 2 * heads_.head_size / heads_.group();
}

HeadColumns GroupedAttention::query_columns() const {
  const std::int64_t d = heads_.head_size;
  if (heads_.sliced()) return {.first = 0, .stride = pitch()};
  return {.first = 0, .stride = (heads_.group() + 2) * d, .group = heads_.group()};
}

kernels::AttentionShape GroupedAttention::shape_of(const Batch& batch) const {
  const AttentionShape place =
      attention_shape(*mesh_, split_, heads_.heads, heads_.head_size, batch);
  return {.samples = place.samples,
          .queries = batch.context,
          .keys = batch.context,
          .heads = local_,
          .kv_heads = kv_local_,
          .head_size = heads_.head_size,
          .first_sample = place.first_sample,
          .first_head = place.first_head,
          .all_heads = heads_.heads};
}

kernels::RotaryHeads GroupedAttention::query_rotation(const Batch& batch) const {
  return {.columns = query_columns(),
          .heads = local_,
          .head_size = heads_.head_size,
          .positions = batch.context,
          .first_position = batch.first_position};
}

/// Keys are rotated where they have been put together: see `assemble`.
kernels::RotaryHeads GroupedAttention::key_rotation(const Batch& batch) const {
  return {.columns = {.first = 0, .stride = 2 * heads_.head_size},
          .heads = kv_local_,
          .head_size = heads_.head_size,
          .positions = batch.context,
          .first_position = batch.first_position};
}

const Tensor& GroupedAttention::table(const Batch& batch, const Tensor& like) const {
  const auto type = kernels::statistics_type(like.scalar_type());
  const std::int64_t positions = batch.first_position + batch.context;
  const bool fits = table_.defined() && table_.size(0) >= positions &&
                    table_.scalar_type() == type && table_.device() == like.device();
  if (!fits) {
    // A text that is continued grows by a position at a time.
    const std::int64_t rows = batch.first_position > 0 ? 2 * positions : positions;
    table_ = kernels::rotary_table(rows, heads_.head_size, rotary_.theta, rotary_.scaling,
                                   like.options().dtype(type).requires_grad(false));
  }
  return table_;
}

// --- keys and values. On a rank they are kept apart from the queries, in columns
// [kv head][k | v], since a rank may have only some slices of them in its columns of the product.

/// This rank's slices, one below the other in memory as they are sent: rows × (query head, k | v).
Tensor GroupedAttention::own_slices(const Tensor& qkv) const {
  const std::int64_t d = heads_.head_size;
  const Tensor slices = qkv.view({qkv.size(0), local_, pitch()}).narrow(2, d, pitch() - d);
  return tensor::contiguous(*mesh_, "keys and values", slices);
}

/// Keys and values of the kv heads that this rank uses. `gathered` are the slices of all ranks that
/// share, or undefined if this rank has all slices itself.
Tensor GroupedAttention::assemble(const Tensor& qkv, const Tensor& gathered) const {
  const std::int64_t d = heads_.head_size;
  const std::int64_t r = heads_.group();
  const std::int64_t rows = qkv.size(0);
  Tensor kv = at::empty({rows, kv_local_ * 2 * d}, qkv.options());
  if (!heads_.sliced()) {
    tensor::copy(*mesh_, "keys and values", kv.view({rows, kv_local_, 2 * d}),
                 qkv.view({rows, kv_local_, (r + 2) * d}).narrow(2, r * d, 2 * d));
    return kv;
  }
  const std::int64_t slice = d / r;
  if (!shares()) {
    const Tensor slices =
        qkv.view({rows, kv_local_, r, pitch()}).narrow(3, d, 2 * slice).unflatten(3, {2, slice});
    tensor::copy(*mesh_, "keys and values", kv.view({rows, kv_local_, 2, r, slice}),
                 slices.transpose(2, 3));
    return kv;
  }
  const std::int64_t sharers = sharing_->size();
  const Tensor slices = gathered.view({sharers, rows, local_, 2, slice}).permute({1, 3, 0, 2, 4});
  tensor::copy(*mesh_, "keys and values", kv.view({rows, 2, sharers, local_, slice}), slices);
  return kv;
}

/// Writes this rank's slices of the gradient into its columns of the product's gradient.
void GroupedAttention::put_slices(const Tensor& from, Tensor& dqkv) const {
  const std::int64_t d = heads_.head_size;
  const std::int64_t r = heads_.group();
  const std::int64_t rows = dqkv.size(0);
  if (!heads_.sliced()) {
    tensor::copy(*mesh_, "keys and values dI",
                 dqkv.view({rows, kv_local_, (r + 2) * d}).narrow(2, r * d, 2 * d),
                 from.view({rows, kv_local_, 2 * d}));
    return;
  }
  const std::int64_t slice = d / r;
  if (shares()) {  // they have come back as `own_slices` sent them
    tensor::copy(*mesh_, "keys and values dI",
                 dqkv.view({rows, local_, pitch()}).narrow(2, d, 2 * slice),
                 from.view({rows, local_, -1}));
    return;
  }
  tensor::copy(
      *mesh_, "keys and values dI",
      dqkv.view({rows, kv_local_, r, pitch()}).narrow(3, d, 2 * slice).unflatten(3, {2, slice}),
      from.view({rows, kv_local_, 2, r, slice}).transpose(2, 3));
}

// --- forward and backward

/// One call of the layer: what its two nodes share, and what is in flight between them.
struct GroupedAttention::Call {
  Batch batch;
  Tensor qkv;              ///< the queries in it are rotated
  tensor::Pending slices;  ///< of all ranks that share
  Tensor kv;               ///< the keys in it are rotated
  Tensor out;
  Tensor logsum;
  Tensor dqkv;
  tensor::Pending kv_gradient;  ///< of this rank's slices
};

void GroupedAttention::record(const char* what, const kernels::AttentionShape& shape, int products,
                              at::ScalarType type, at::ScalarType wide, std::int64_t bytes) const {
  const auto scores = static_cast<double>(kernels::computed_scores(shape.queries, shape.keys));
  const auto heads = static_cast<double>(shape.heads * shape.samples);
  const double flops = products * 2 * scores * heads * static_cast<double>(shape.head_size);
  mesh_->compute(what, {.work = schedule::Work::kAttention,
                        .dtype = tensor::dtype_of(wide),
                        .flops = Flops(flops),
                        .bytes = Bytes(bytes),
                        .widened = wide != type});
}

namespace {

std::int64_t bytes_of(const Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

kernels::QueryKeyValue parts_of(const Tensor& qkv, const HeadColumns& queries, const Tensor& kv,
                                std::int64_t head_size) {
  const std::int64_t stride = 2 * head_size;
  return {{qkv, queries},
          {kv, {.first = 0, .stride = stride}},
          {kv, {.first = head_size, .stride = stride}}};
}

}  // namespace

/// Puts keys and values together, and rotates queries and keys.
void GroupedAttention::rotate(Call& call) const {
  const LayerScope scope(name());
  const Tensor& qkv = call.qkv;
  call.kv = assemble(qkv, shares() ? call.slices.wait() : Tensor());
  const Tensor& turns = table(call.batch, qkv);
  kernels::rotate_heads(qkv, query_rotation(call.batch), turns, kernels::Rotation::kForward);
  kernels::rotate_heads(call.kv, key_rotation(call.batch), turns, kernels::Rotation::kForward);
  mesh_->compute("rotary", tensor::loop_over(qkv, 2, 3));
}

Tensor GroupedAttention::attend(Call& call) const {
  const LayerScope scope(name());
  rotate(call);
  const Tensor& qkv = call.qkv;
  const kernels::AttentionShape shape = shape_of(call.batch);
  // The softmax of bf16 is computed in float, and so are the products around it.
  const auto wide = kernels::statistics_type(qkv.scalar_type());
  const Tensor wide_qkv = tensor::cast_for_kernel(*mesh_, "attention cast", qkv, wide);
  const Tensor wide_kv = tensor::cast_for_kernel(*mesh_, "attention cast", call.kv, wide);
  Tensor out = at::empty({qkv.size(0), local_ * heads_.head_size}, wide_qkv.options());
  call.logsum = at::empty({shape.samples, shape.heads, shape.queries}, wide_qkv.options());
  if (mesh_->dry()) {
    at::empty({kernels::attention_scratch(shape, false)}, wide_qkv.options());
  } else {
    kernels::attention_forward(shape, parts_of(wide_qkv, query_columns(), wide_kv, shape.head_size),
                               out, call.logsum);
  }
  record("attention", shape, 2, qkv.scalar_type(), wide,
         bytes_of(wide_qkv) + bytes_of(wide_kv) + bytes_of(out));
  call.out = tensor::cast_for_kernel(*mesh_, "attention cast", out, qkv.scalar_type());
  return call.out;
}

void GroupedAttention::backward_attention(Call& call, const Tensor& upstream) const {
  FOURFOLD_CHECK(call.qkv.defined(), name(), ": a second backward pass");
  const LayerScope scope(name());
  const kernels::AttentionShape shape = shape_of(call.batch);
  const Tensor qkv = std::exchange(call.qkv, Tensor());
  const Tensor kv = std::exchange(call.kv, Tensor());
  const auto wide = call.logsum.scalar_type();
  const Tensor wide_qkv = tensor::cast_for_kernel(*mesh_, "attention cast", qkv, wide);
  const Tensor wide_kv = tensor::cast_for_kernel(*mesh_, "attention cast", kv, wide);
  const Tensor out =
      tensor::cast_for_kernel(*mesh_, "attention cast", std::exchange(call.out, Tensor()), wide);
  const Tensor gradient = tensor::cast_for_kernel(*mesh_, "attention cast", upstream, wide);
  Tensor dqkv = at::empty_like(wide_qkv);
  const Tensor dkv = at::empty_like(wide_kv);
  if (mesh_->dry()) {
    at::empty({kernels::attention_scratch(shape, true)}, wide_qkv.options());
  } else {
    const HeadColumns queries = query_columns();
    kernels::attention_backward(shape, parts_of(wide_qkv, queries, wide_kv, shape.head_size), out,
                                call.logsum, gradient,
                                parts_of(dqkv, queries, dkv, shape.head_size));
  }
  call.logsum = Tensor();
  record("attention dI", shape, 5, qkv.scalar_type(), wide,
         2 * (bytes_of(wide_qkv) + bytes_of(wide_kv) + bytes_of(gradient)));
  const Tensor& turns = table(call.batch, qkv);
  kernels::rotate_heads(dqkv, query_rotation(call.batch), turns, kernels::Rotation::kBackward);
  kernels::rotate_heads(dkv, key_rotation(call.batch), turns, kernels::Rotation::kBackward);
  mesh_->compute("rotary dI", tensor::loop_over(dqkv, 2, 3));
  call.dqkv = tensor::cast_for_kernel(*mesh_, "attention cast", dqkv, qkv.scalar_type());
  if (!shares()) {
    put_slices(dkv, call.dqkv);
    return;
  }
  // Every rank that shares has a part of the gradient of all slices, and sums up its own.
  const std::int64_t sharers = sharing_->size();
  const std::int64_t rows = qkv.size(0);
  const std::int64_t slice = heads_.head_size / heads_.group();
  const Tensor all = at::empty({sharers, rows, local_, 2, slice}, qkv.options());
  tensor::copy(*mesh_, "keys and values dI", all,
               dkv.view({rows, 2, sharers, local_, slice}).permute({2, 0, 3, 1, 4}));
  call.kv_gradient = tensor::reduce_scatter(*sharing_, all.flatten(0, 1));
}

Tensor GroupedAttention::end_backward(Call& call) const {
  const LayerScope scope(name());
  if (shares()) put_slices(call.kv_gradient.wait(), call.dqkv);
  return std::exchange(call.dqkv, Tensor());
}

Flow<Tensor> GroupedAttention::flow(Tensor qkv, Batch batch, const Pass& pass) const {
  FOURFOLD_CHECK_EQ(qkv.size(1) * mesh_->size(over_), heads_.columns(), name());
  FOURFOLD_CHECK(qkv.is_contiguous());
  const auto call = std::make_shared<Call>();
  call->batch = batch;
  call->qkv = qkv.detach();
  const at::TensorOptions options = qkv.options();
  const variable_list passed = node(
      name(), {qkv},
      [&](const variable_list&) -> variable_list {
        const LayerScope scope(name());
        if (shares()) {
          const Tensor own = own_slices(call->qkv);
          call->slices = tensor::all_gather(*sharing_, own.flatten(1, 2));
        }
        return {placeholder(options)};
      },
      [this, call](const variable_list&) -> variable_list { return {end_backward(*call)}; });
  torch::autograd::impl::bump_version(call->qkv);  // other uses of qkv fail
  qkv = Tensor();
  co_await Turn{call->slices.under_way()};

  if (pass.cache() != nullptr) {
    rotate(*call);
    co_return pass.cache()->attend(*mesh_, name(), shape_of(batch), call->qkv, query_columns(),
                                   call->kv);
  }
  co_return node(
      name(), passed, [&](const variable_list&) -> variable_list { return {attend(*call)}; },
      [this, call, options](const variable_list& gradients) -> variable_list {
        backward_attention(*call, gradients[0].contiguous());
        return {placeholder(options)};
      })[0];
}

}  // namespace fourfold::nn
