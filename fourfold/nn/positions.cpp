// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/positions.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/nn/function.hpp"

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

class PositionsFunction : public torch::autograd::Function<PositionsFunction> {
 public:
  struct Call {
    Batch batch;
    std::shared_ptr<Parameter::Use> use;
  };

  static Tensor forward(AutogradContext* context, const Tensor& hidden, const Tensor& /*weight*/,
                        const Positions* layer, tensor::InFlight* in_flight, const Call& call) {
    remember(context, *layer);
    keep(context, call);
    const Mesh& mesh = *layer->mesh_;
    const Batch& batch = call.batch;
    const Tensor table = layer->parameter_->gather(*in_flight);
    const LayerScope scope(layer->parameter_->layer());
    Tensor out = hidden.detach();
    for_each_stretch(hidden_rows(mesh, batch, layer->activations_), batch,
                     [&](std::int64_t row, std::int64_t position, std::int64_t count) {
                       out.narrow(0, row, count).add_(table.narrow(0, position, count));
                     });
    mesh.compute("positions", static_cast<double>(out.numel()),
                 2 * static_cast<std::int64_t>(out.nbytes()));
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Positions& layer = remembered<Positions>(context);
    const auto& call = kept<Call>(context);
    const Batch& batch = call.batch;
    const Mesh& mesh = *layer.mesh_;
    const LayerScope scope(layer.parameter_->layer());
    const Tensor gradient = gradients[0].contiguous();
    // The slot is for the whole table: positions that this pass does not have get zero.
    const Parameter::Slot slot = call.use->slot(layer.parameter_->precision().master);
    if (slot.into == kernels::Into::kNew) slot.tensor.zero_();
    for_each_stretch(hidden_rows(mesh, batch, layer.activations_), batch,
                     [&](std::int64_t row, std::int64_t position, std::int64_t count) {
                       kernels::add_to(slot.tensor.narrow(0, position, count),
                                       gradient.narrow(0, row, count));
                     });
    mesh.compute("positions dE", static_cast<double>(gradient.numel()),
                 static_cast<std::int64_t>(gradient.nbytes()));
    call.use->end();
    call.use->in_flight().sums_issued();
    return {gradient, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Tensor Positions::add_to(const Tensor& hidden, const Batch& batch, const Pass& pass) const {
  FOURFOLD_CHECK(batch.first_position + batch.context <= parameter_->spec().shape[0],
                 "a context of ", batch.first_position + batch.context, " in a model for ",
                 parameter_->spec().shape[0]);
  tensor::InFlight& in_flight = pass.in_flight();
  return PositionsFunction::apply(hidden, parameter_->leaf(), this, &in_flight,
                                  PositionsFunction::Call{batch, parameter_->use(in_flight)});
}

}  // namespace fourfold::nn
