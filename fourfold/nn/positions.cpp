// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/positions.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using grid::Range;

Positions::Positions(const Mesh& mesh, const std::string& name, std::int64_t context,
                     std::int64_t width, Activations activations, const Precision& precision,
                     std::uint64_t seed, double deviation)
    : Layer(mesh, name), activations_(activations) {
  ParameterSpec spec{.name = name + ".weight",
                     .shape = {context, width},
                     .gathered = {Axis::kY, Axis::kZ},
                     .columns = Axis::kX,
                     .deviation = deviation};
  spec.summed = activations == Activations::kSharded ? spec.gathered : Axes(Axis::kZ);
  parameter_ = declare(spec, precision, seed);
}

namespace {

/// Calls body(first row here, first position, count) for each stretch of rows of one sample.
template <class Body>
void for_each_stretch(const Range& rows, const Batch& batch, const Body& body) {
  for (std::int64_t row = rows.begin; row < rows.end;) {
    const std::int64_t position = row % batch.context;
    const std::int64_t count = std::min(batch.context - position, rows.end - row);
    body(row - rows.begin, batch.first_position + position, count);
    row += count;
  }
}

}  // namespace

Tensor Positions::forward(const Tensor& hidden, const Batch& batch,
                          tensor::InFlight& in_flight) const {
  const Tensor table = parameter_->gather(in_flight);
  const LayerScope scope(parameter_->layer());
  Tensor out = hidden.detach();
  for_each_stretch(hidden_rows(*mesh_, batch, activations_), batch,
                   [&](std::int64_t row, std::int64_t position, std::int64_t count) {
                     out.narrow(0, row, count).add_(table.narrow(0, position, count));
                   });
  mesh_->compute("positions", tensor::loop_over(out, 3, 1));
  return out;
}

void Positions::backward(const Tensor& gradient, const Batch& batch, Parameter::Use& use) const {
  const LayerScope scope(parameter_->layer());
  // The slot is for the whole table: positions that this pass does not have get zero.
  const Parameter::Slot slot = use.slot(parameter_->precision().master);
  if (slot.into == kernels::Into::kNew) {
    tensor::fill_zero(*mesh_, "positions zeros", slot.tensor);
  }
  for_each_stretch(hidden_rows(*mesh_, batch, activations_), batch,
                   [&](std::int64_t row, std::int64_t position, std::int64_t count) {
                     kernels::add_to(slot.tensor.narrow(0, position, count),
                                     gradient.narrow(0, row, count));
                   });
  mesh_->compute("positions dE", tensor::loop_over(gradient, 3, 1));
  use.end();
  use.in_flight().sums_issued();
}

Tensor Positions::add_to(const Tensor& hidden, const Batch& batch, const Pass& pass) const {
  FOURFOLD_CHECK(batch.first_position + batch.context <= parameter_->spec().shape[0],
                 "a context of ", batch.first_position + batch.context, " in a model for ",
                 parameter_->spec().shape[0]);
  tensor::InFlight& in_flight = pass.in_flight();
  return node(
      parameter_->layer(), {hidden, parameter_->leaf()},
      [&](const variable_list& in) -> variable_list { return {forward(in[0], batch, in_flight)}; },
      [this, batch,
       use = parameter_->use(in_flight)](const variable_list& gradients) -> variable_list {
        const Tensor gradient = gradients[0].contiguous();
        backward(gradient, batch, *use);
        return {gradient, Tensor()};
      })[0];
}

}  // namespace fourfold::nn
