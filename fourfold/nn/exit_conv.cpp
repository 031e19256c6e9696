// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/exit_conv.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/nn/columns.hpp"
#include "fourfold/nn/conv_work.hpp"
#include "fourfold/nn/group_norm.hpp"
#include "fourfold/nn/rows.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axis;
using tensor::Pending;

std::string ExitConv::misfit(const ExitConvSpec& spec, const grid::Sizes& sizes) {
  const bool sharded = spec.activations == Activations::kSharded;
  return cannot_split(spec.name, "input channels", spec.in,
                      std::int64_t{sizes.x} * (sharded ? sizes.y : 1), sharded ? "x times y" : "x");
}

ExitConv::ExitConv(const Mesh& mesh, const ExitConvSpec& spec, const Precision& precision,
                   std::uint64_t seed)
    : Layer(mesh, spec.name), spec_(spec), axes_(channel_axes(false, spec.activations)) {
  const std::string reason = misfit(spec, {.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
  mesh.join(axes_);
  ParameterSpec weight{.name = spec.name + ".weight",
                       .shape = {spec.out, spec.shape.taps(), spec.in},
                       .gathered = Axis::kZ,
                       .columns = axes_,
                       .summed = Axis::kZ,
                       .deviation = spec.deviation};
  if (spec.activations == Activations::kReplicated) weight.gathered = {Axis::kY, Axis::kZ};
  // The ranks that the input is split over have different parts of the bias. There may be more of
  // them than outputs: then some have none.
  ParameterSpec bias{.name = spec.name + ".bias",
                     .shape = {spec.out},
                     .kept = axes_,
                     .gathered = weight.gathered,
                     .summed = Axis::kZ};
  weight_ = declare(weight, precision, seed);
  bias_ = declare(bias, Precision{precision.master, precision.master}, seed);
}

double ExitConv::flops(const Batch& batch) const {
  return 2.0 * static_cast<double>(spec_.in * spec_.shape.taps() * spec_.out) *
         static_cast<double>(batch.samples * spec_.shape.out_pixels());
}

grid::Range ExitConv::own_outputs() const {
  return grid::range_along(spec_.out, axes_, mesh_->grid(), mesh_->coord());
}

void ExitConv::add_bias(Tensor& partial, const Tensor& bias) const {
  const grid::Range own = own_outputs();
  if (own.empty()) return;
  partial.narrow(1, own.begin, own.size()).add_(bias.narrow(0, 0, own.size()));
  mesh_->compute("bias", tensor::loop_over(partial, 2, 1));
}

/// As long as this rank's part of the bias is with its padding.
Tensor ExitConv::bias_gradient(const Tensor& gradient) const {
  const grid::Range own = own_outputs();
  const Tensor sums = kernels::column_sums(gradient);
  mesh_->compute("bias dB", tensor::loop_over(gradient, 1, 1));
  Tensor result = at::zeros({bias_->rows()}, sums.options());
  result.narrow(0, 0, own.size()).copy_(sums.narrow(0, own.begin, own.size()));
  return result;
}

/// One call of the layer: what its nodes share.
struct ExitConv::Call {
  tensor::InFlight* in_flight = nullptr;
  std::shared_ptr<Parameter::Use> use;  ///< null while no graph is made
  Tensor bias;
  Saved input;
  Pending output;
  Tensor gradient;
};

Pending ExitConv::convolve(const Call& call, const Tensor& input) const {
  const LayerScope scope(name());
  Tensor partial = conv(*mesh_, input, weight_->gather(*call.in_flight), spec_.shape);
  add_bias(partial, call.bias);
  return tensor::all_reduce(mesh_->comm(axes_), partial);
}

/// The gradients of the input, of the weight, which the parameter collects, and of the bias.
variable_list ExitConv::backward_products(Call& call) const {
  const LayerScope scope(name());
  const Tensor gradient = std::exchange(call.gradient, Tensor());
  conv_weight_gradient(*mesh_, *call.use, gradient, call.input.get(), spec_.shape);
  if (!mesh_->overlap().input_gradients) call.in_flight->sums_issued();
  const Tensor input_gradient =
      conv_input_gradient(*mesh_, gradient, weight_->gather(*call.in_flight), spec_.shape);
  call.in_flight->sums_issued();
  return {input_gradient, Tensor(), bias_gradient(gradient)};
}

Flow<Tensor> ExitConv::flow(Tensor input, const Pass& pass) const {
  FOURFOLD_CHECK_EQ(input.size(1) * mesh_->size(axes_), spec_.in, name());
  const Tensor bias = pass.vector(bias_);
  const auto call = std::make_shared<Call>();
  const at::TensorOptions options = input.options();
  call->in_flight = &pass.in_flight();
  call->use = weight_->use(pass.in_flight());
  call->bias = bias.detach();
  if (call->use) call->input = Saved(input);
  const variable_list passed = node(
      name(), {input, weight_->leaf(), bias},
      [&](const variable_list& in) -> variable_list {
        call->output = convolve(*call, in[0].detach());
        return {placeholder(options)};
      },
      [this, call](const variable_list&) -> variable_list { return backward_products(*call); });
  input = Tensor();
  co_await Turn{call->output.under_way()};

  co_return node(
      name(), passed, [&](const variable_list&) -> variable_list { return {call->output.wait()}; },
      [call, options](const variable_list& gradients) -> variable_list {
        call->gradient = gradients[0].contiguous();
        return {placeholder(options)};
      })[0];
}

}  // namespace fourfold::nn
