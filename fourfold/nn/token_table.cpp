// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/token_table.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/nn/function.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/vocabulary_kernels.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using tensor::Into;
using tensor::MemoryClass;
using tensor::MemoryScope;

TokenTable::TokenTable(const Mesh& mesh, const TableSpec& spec, const Precision& precision,
                       std::uint64_t seed)
    : mesh_(&mesh), spec_(spec), chunks_(mesh.size(Axis::kX)) {
  if (spec.width % chunks_ != 0) {
    throw ConfigError(concat(spec.name, ": a width of ", spec.width, " cannot be split over x=",
                             chunks_, "; choose a size of x that divides it"));
  }
  here_ = grid::range_along(spec.vocabulary, {Axis::kY, Axis::kX}, mesh.grid(), mesh.coord());
  parameter_ = std::make_shared<Parameter>(mesh,
                                           ParameterSpec{.name = spec.name + ".weight",
                                                         .shape = {spec.vocabulary, spec.width},
                                                         .kept = {Axis::kY, Axis::kX},
                                                         .gathered = Axis::kZ,
                                                         .summed = Axis::kZ,
                                                         .deviation = spec.deviation},
                                           precision, seed);
}

// --- the way between chunks and hidden states

Tensor TokenTable::spread(const Tensor& chunks) const {
  if (spec_.activations == Activations::kSharded) {
    return tensor::reduce_scatter(mesh_->comm({Axis::kX, Axis::kY}), chunks).wait();
  }
  const Tensor columns = tensor::reduce_scatter(mesh_->comm(Axis::kX), chunks).wait();
  return tensor::all_reduce(mesh_->comm(Axis::kY), columns).wait();
}

Tensor TokenTable::collect(const Tensor& hidden) const {
  const bool sharded = spec_.activations == Activations::kSharded;
  const Axes axes = sharded ? Axes{Axis::kX, Axis::kY} : Axes(Axis::kX);
  return tensor::all_gather(mesh_->comm(axes), hidden).wait();
}

// --- gradient

/// Where a use adds its gradient: to the parameter's own if nothing is to be reduced.
Parameter::Slot TokenTable::gradient_slot() const {
  if (parameter_->gradient_comm().size() == 1) return parameter_->gradient_slot();
  if (pending_.defined()) return {pending_, Into::kSum};
  const MemoryScope scope(MemoryClass::kCommunication);
  pending_ = at::empty({parameter_->padded_rows(), spec_.width},
                       parameter_->value().options().dtype(parameter_->precision().master));
  return {pending_, Into::kNew};
}

void TokenTable::end_use() const {
  if (++uses_seen_ < spec_.uses) return;
  uses_seen_ = 0;
  if (!pending_.defined()) return;
  const MemoryScope scope(MemoryClass::kCommunication);
  parameter_->accumulate(tensor::reduce_scatter(parameter_->gradient_comm(), pending_).wait());
  pending_ = Tensor();
}

// --- lookup

Tensor TokenTable::run_lookup(const Tensor& tokens) const {
  const Tensor table = parameter_->gather().wait();
  Tensor chunks = at::empty({chunks_, tokens.numel(), spec_.width / chunks_}, table.options());
  tensor::lookup_rows(table, tokens, here_, chunks);
  mesh_->compute("lookup", 0, 2 * static_cast<std::int64_t>(chunks.nbytes()));
  return spread(chunks.flatten(0, 1));
}

class LookupFunction : public torch::autograd::Function<LookupFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& tokens, const Tensor& /*weight*/,
                        const TokenTable* table) {
    remember(context, *table);
    context->save_for_backward({tokens});
    return table->run_lookup(tokens);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const TokenTable& table = remembered<TokenTable>(context);
    const Tensor tokens = context->get_saved_variables()[0];
    const Tensor chunks = table.collect(gradients[0].contiguous());
    Parameter::Slot slot = table.gradient_slot();
    if (slot.into == Into::kNew) slot.tensor.zero_();
    tensor::add_to_rows(chunks.view({table.chunks_, tokens.numel(), -1}), tokens, table.here_,
                        slot.tensor);
    table.mesh_->compute("lookup dE", static_cast<double>(chunks.numel()),
                         2 * static_cast<std::int64_t>(chunks.nbytes()));
    table.end_use();
    return {Tensor(), Tensor(), Tensor()};
  }
};

Tensor TokenTable::lookup(const Tensor& tokens) const {
  FOURFOLD_CHECK(tokens.scalar_type() == at::kLong && tokens.is_contiguous());
  tensor::check_tokens(tokens, spec_.vocabulary);
  return LookupFunction::apply(tokens, parameter_->value(), this);
}

// --- logits

namespace {

/// Columns that lie in chunks one below the other, side by side. The copy is small beside the
/// products with the table, which are faster whole.
Tensor side_by_side(const Tensor& chunks, std::int64_t count) {
  if (count == 1) return chunks;
  const std::int64_t rows = chunks.size(0) / count;
  return chunks.view({count, rows, chunks.size(1)}).transpose(0, 1).reshape({rows, -1});
}

/// And back.
Tensor one_below_the_other(const Tensor& rows, std::int64_t count) {
  if (count == 1) return rows;
  const std::int64_t columns = rows.size(1) / count;
  return rows.view({rows.size(0), count, columns}).transpose(0, 1).reshape({-1, columns});
}

}  // namespace

Tensor TokenTable::run_logits(const Tensor& hidden) const {
  tensor::Pending gathered = parameter_->gather();
  const Tensor rows = side_by_side(collect(hidden), chunks_);
  const Tensor table = parameter_->trim(gathered.wait());
  Tensor out = at::empty({rows.size(0), table.size(0)}, hidden.options());
  tensor::product(*mesh_, "logits", out, rows, table.t());
  return out;
}

class LogitsFunction : public torch::autograd::Function<LogitsFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& /*weight*/,
                        const TokenTable* table) {
    remember(context, *table);
    context->save_for_backward({hidden});
    return table->run_logits(hidden);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const TokenTable& t = remembered<TokenTable>(context);
    const Tensor gradient = gradients[0].contiguous();
    tensor::Pending gathered = t.parameter_->gather();
    const Tensor rows = side_by_side(t.collect(context->get_saved_variables()[0]), t.chunks_);
    const Tensor table = t.parameter_->trim(gathered.wait());
    const Parameter::Slot slot = t.gradient_slot();
    if (slot.into == Into::kNew) {
      slot.tensor.narrow(0, table.size(0), slot.tensor.size(0) - table.size(0)).zero_();
    }
    Tensor sum = slot.tensor.narrow(0, 0, table.size(0));
    tensor::product(*t.mesh_, "logits dE", sum, gradient.t(), rows, slot.into);
    t.end_use();
    Tensor result = at::empty_like(rows);
    tensor::product(*t.mesh_, "logits dI", result, gradient, table);
    return {t.spread(one_below_the_other(result, t.chunks_)), Tensor(), Tensor()};
  }
};

Tensor TokenTable::logits(const Tensor& hidden) const {
  return LogitsFunction::apply(hidden, parameter_->value(), this);
}

}  // namespace fourfold::nn
