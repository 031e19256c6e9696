// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/summa_table.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/vocabulary.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axis;
using kernels::Into;
using tensor::Pending;

SummaTable::SummaTable(const Mesh& mesh, const TableSpec& spec, const Precision& precision,
                       std::uint64_t seed)
    : VocabularyTable(mesh, spec, Axis::kX) {
  check_square(mesh);
  if (spec.width % mesh.size(Axis::kY) != 0) {
    throw ConfigError(concat(spec.name, ": a width of ", spec.width,
                             " cannot be split over x=", mesh.size(Axis::kX),
                             " and y=", mesh.size(Axis::kY), "; choose sizes that divide it"));
  }
  mesh.join(Axis::kX);
  mesh.join({Axis::kX, Axis::kY});
  parameter_ = declare(
      summa_weight(mesh, spec.name + ".weight", {spec.vocabulary, spec.width}, spec.deviation),
      precision, seed);
  product_ = std::make_unique<SummaProduct>(
      mesh, parameter_, SummaProduct::Names{"logits", "logits dI", "logits dE"});
}

Tensor SummaTable::across(const Tensor& block) const {
  const int x = mesh_->coord()[Axis::kX];
  const int y = mesh_->coord()[Axis::kY];
  if (x == y) return block;
  const LayerScope scope(spec_.name);
  const comm::Communicator& comm = mesh_->comm({Axis::kX, Axis::kY});
  const int peer = y * mesh_->size(Axis::kY) + x;  // x and y change places
  const Tensor out = at::empty_like(block);
  comm.transfer({{tensor::view(block), peer}}, {{tensor::view(out), peer}}).wait();
  return out;
}

// The lookup gives the rows of all tokens and the columns of this rank's y: a partial sum over x.
// The rows of the sum are split over x, so that rank (y, x) gets what (x, y) should have.
Pending SummaTable::start_lookup(const Tensor& tokens, tensor::InFlight&) const {
  FOURFOLD_CHECK_EQ(tokens.numel() % mesh_->size(Axis::kX), 0, "rows of tokens");
  const LayerScope scope(spec_.name);
  parameter_->wait_for_values();
  const Tensor table = parameter_->value().detach();
  Tensor rows = at::empty({1, tokens.numel(), table.size(1)}, table.options());
  kernels::lookup_rows(table, tokens, here_, rows);
  mesh_->compute("lookup", tensor::loop_over(rows, 2));
  return tensor::reduce_scatter(mesh_->comm(Axis::kX), rows[0]);
}

void SummaTable::add_lookup_gradient(const Tensor& gradient, const Tensor& tokens,
                                     Parameter::Use& use) const {
  // If the table is also used for logits, their gradient is always added first.
  use.in_flight().sums().drain();
  const LayerScope scope(spec_.name);
  Parameter::Slot slot = use.slot(parameter_->precision().master);
  if (slot.into == Into::kNew) tensor::fill_zero(*mesh_, "lookup zeros", slot.tensor);
  kernels::add_to_rows(gradient.unsqueeze(0), tokens, here_, slot.tensor);
  mesh_->compute("lookup dE", tensor::loop_over(gradient, 3, 1));
  use.end();
}

Pending SummaTable::start_lookup_gradient(const Tensor& gradient) const {
  const LayerScope scope(spec_.name);
  return tensor::all_gather(mesh_->comm(Axis::kX), across(gradient));
}

}  // namespace fourfold::nn
