// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/token_table.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/vocabulary.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using kernels::Into;
using tensor::Pending;

TokenTable::TokenTable(const Mesh& mesh, const TableSpec& spec, const Precision& precision,
                       std::uint64_t seed)
    : VocabularyTable(mesh, spec, {Axis::kY, Axis::kX}), chunks_(mesh.size(Axis::kX)) {
  if (spec.width % chunks_ != 0) {
    throw ConfigError(concat(spec.name, ": a width of ", spec.width, " cannot be split over x=",
                             chunks_, "; choose a size of x that divides it"));
  }
  for (const Axes& axes : {Axes(Axis::kX), Axes(Axis::kY), Axes{Axis::kX, Axis::kY}}) {
    mesh.join(axes);
  }
  parameter_ = declare(ParameterSpec{.name = spec.name + ".weight",
                                     .shape = {spec.vocabulary, spec.width},
                                     .kept = logit_axes(),
                                     .gathered = Axis::kZ,
                                     .summed = Axis::kZ,
                                     .deviation = spec.deviation},
                       precision, seed);
}

// --- conversion between chunks and hidden states

Pending TokenTable::spread(const Tensor& chunks) const {
  const LayerScope scope(spec_.name);
  if (spec_.activations == Activations::kSharded) {
    return tensor::reduce_scatter(mesh_->comm({Axis::kX, Axis::kY}), chunks);
  }
  if (chunks_ == 1) return tensor::all_reduce(mesh_->comm(Axis::kY), chunks);
  return tensor::reduce_scatter(mesh_->comm(Axis::kX), chunks);
}

Tensor TokenTable::end_spread(Pending& spreading) const {
  const LayerScope scope(spec_.name);
  const Tensor columns = spreading.wait();
  if (spec_.activations == Activations::kSharded || chunks_ == 1) return columns;
  return tensor::all_reduce(mesh_->comm(Axis::kY), columns).wait();
}

Pending TokenTable::collect(const Tensor& hidden) const {
  const LayerScope scope(spec_.name);
  const bool sharded = spec_.activations == Activations::kSharded;
  const Axes axes = sharded ? Axes{Axis::kX, Axis::kY} : Axes(Axis::kX);
  return tensor::all_gather(mesh_->comm(axes), hidden);
}

// --- lookup

Pending TokenTable::start_lookup(const Tensor& tokens, tensor::InFlight& in_flight) const {
  const LayerScope scope(spec_.name);
  const Tensor table = parameter_->gather(in_flight);
  Tensor chunks = at::empty({chunks_, tokens.numel(), spec_.width / chunks_}, table.options());
  kernels::lookup_rows(table, tokens, here_, chunks);
  mesh_->compute("lookup", tensor::loop_over(chunks, 2));
  return spread(chunks.flatten(0, 1));
}

void TokenTable::add_lookup_gradient(const Tensor& chunks, const Tensor& tokens,
                                     Parameter::Use& use) const {
  const LayerScope scope(spec_.name);
  Parameter::Slot slot = use.slot(parameter_->precision().master);
  if (slot.into == Into::kNew) tensor::fill_zero(*mesh_, "lookup zeros", slot.tensor);
  kernels::add_to_rows(chunks.view({chunks_, tokens.numel(), -1}), tokens, here_, slot.tensor);
  mesh_->compute("lookup dE", tensor::loop_over(chunks, 3, 1));
  use.end();
  use.in_flight().sums_issued();
}

// --- logits

namespace {

/// Puts chunks of columns that lie one below the other side by side. The copy is small compared to
/// the products with the table, which are faster on whole rows.
Tensor side_by_side(const Mesh& mesh, const Tensor& chunks, std::int64_t count) {
  if (count == 1) return chunks;
  const std::int64_t rows = chunks.size(0) / count;
  const Tensor columns = chunks.view({count, rows, chunks.size(1)}).transpose(0, 1);
  return tensor::contiguous(mesh, "logits columns", columns).view({rows, -1});
}

/// The inverse of `side_by_side`.
Tensor one_below_the_other(const Mesh& mesh, const Tensor& rows, std::int64_t count) {
  if (count == 1) return rows;
  const std::int64_t columns = rows.size(1) / count;
  const Tensor chunks = rows.view({rows.size(0), count, columns}).transpose(0, 1);
  return tensor::contiguous(mesh, "logits columns", chunks).view({-1, columns});
}

}  // namespace

Tensor TokenTable::multiply(const Tensor& chunks, tensor::InFlight& in_flight) const {
  const LayerScope scope(spec_.name);
  const Tensor rows = side_by_side(*mesh_, chunks, chunks_);
  const Tensor table = parameter_->gather(in_flight);
  Tensor out = at::empty({rows.size(0), table.size(0)}, rows.options());
  tensor::product(*mesh_, "logits", out, rows, table.t());
  return out;
}

/// One call of the layer: what its two nodes share.
struct TokenTable::LogitsCall {
  std::shared_ptr<Parameter::Use> use;
  Tensor hidden;  ///< kept for the backward pass
  Pending rows;
  Pending gradient;
};

void TokenTable::backward_products(LogitsCall& call, const Tensor& gradient) const {
  FOURFOLD_CHECK(call.hidden.defined(), spec_.name, ": a second backward pass");
  const LayerScope scope(spec_.name);
  Pending collected = collect(std::exchange(call.hidden, Tensor()));
  if (!mesh_->overlap().input_gradients) collected.finish();
  const Tensor table = parameter_->gather(call.use->in_flight());
  Tensor result = at::empty({gradient.size(0), table.size(1)}, table.options());
  tensor::product(*mesh_, "logits dI", result, gradient, table);
  call.gradient = spread(one_below_the_other(*mesh_, result, chunks_));
  if (!mesh_->overlap().input_gradients) call.gradient.finish();
  const Tensor rows = side_by_side(*mesh_, collected.wait(), chunks_);
  Parameter::Slot slot = call.use->slot(parameter_->precision().master);
  tensor::product(*mesh_, "logits dE", slot.tensor, gradient.t(), rows, slot.into);
  call.use->end();
  call.use->in_flight().sums_issued();
}

Flow<Tensor> TokenTable::logits_flow(Tensor hidden, const Pass& pass) const {
  const auto call = std::make_shared<LogitsCall>();
  const at::TensorOptions options = hidden.options();
  call->use = parameter_->use(pass.in_flight());
  if (call->use) call->hidden = hidden.detach();
  const variable_list passed = node(
      spec_.name, {hidden, parameter_->leaf()},
      [&](const variable_list& in) -> variable_list {
        call->rows = collect(in[0].detach());
        return {placeholder(options)};
      },
      [this, call](const variable_list&) -> variable_list {
        return {end_spread(call->gradient), Tensor()};
      });
  hidden = Tensor();
  co_await Turn{call->rows.under_way()};

  co_return node(
      spec_.name, passed,
      [&](const variable_list&) -> variable_list {
        return {multiply(call->rows.wait(), pass.in_flight())};
      },
      [this, call, options](const variable_list& gradients) -> variable_list {
        backward_products(*call, gradients[0].contiguous());
        return {placeholder(options)};
      })[0];
}

}  // namespace fourfold::nn
