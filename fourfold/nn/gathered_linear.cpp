// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/gathered_linear.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/kernels/silu.hpp"
#include "fourfold/nn/columns.hpp"
#include "fourfold/nn/rows.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using kernels::Into;
using tensor::Pending;
using Output = GatheredLinearSpec::Output;

std::string GatheredLinear::misfit(const GatheredLinearSpec& spec, const grid::Sizes& sizes) {
  return cannot_split(spec.name, "outputs", spec.out, std::int64_t{sizes.x} * sizes.y, "x times y");
}

GatheredLinear::GatheredLinear(const Mesh& mesh, const GatheredLinearSpec& spec,
                               const Precision& precision, std::uint64_t seed)
    : Layer(mesh, spec.name),
      spec_(spec),
      kept_(spec.transposed ? Axes{Axis::kY, Axis::kX} : Axes{Axis::kX, Axis::kY}) {
  const std::string reason = misfit(spec, {.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
  mesh.join(gathered_axes());
  ParameterSpec weight{.name = spec.name + ".weight",
                       .shape = {spec.out, spec.in},
                       .kept = kept_,
                       .gathered = Axis::kZ,
                       .summed = Axis::kZ,
                       .deviation = spec.deviation};
  weight_ = declare(weight, precision, seed);
  ParameterSpec bias{.name = spec.name + ".bias",
                     .shape = {spec.out},
                     .kept = kept_,
                     .gathered = Axis::kZ,
                     .summed = Axis::kZ};
  bias_ = declare(bias, Precision{precision.master, precision.master}, seed);
}

double GatheredLinear::flops(const Batch& batch) const {
  return 2.0 * static_cast<double>(spec_.in * spec_.out) * static_cast<double>(batch.samples);
}

Axes GatheredLinear::gathered_axes() const {
  switch (spec_.output) {
    case Output::kSplit:
      return {};
    case Output::kCopies:
      return kept_[1];
    default:
      return kept_;
  }
}

/// One call of the layer: what its nodes share, and what is in flight between them.
struct GatheredLinear::Call {
  tensor::InFlight* in_flight = nullptr;
  std::shared_ptr<Parameter::Use> use;  ///< null while no graph is made
  Tensor bias;
  Saved input;
  Tensor sums;  ///< before SiLU, kept for the backward pass if SiLU follows
  Pending output;
  Pending gradient;
};

Tensor GatheredLinear::multiply(Call& call, const Tensor& input) const {
  const LayerScope scope(name());
  const Tensor weight = weight_->gather(*call.in_flight);
  Tensor out = at::empty({input.size(0), weight.size(0)}, input.options());
  out.copy_(call.bias.expand_as(out));
  mesh_->compute("bias", tensor::loop_over(out, 1));
  tensor::product(*mesh_, "linear", out, input, weight.t(), Into::kSum);
  if (!spec_.silu) return out;
  Tensor result = at::empty_like(out);
  kernels::silu_forward(out, result);
  mesh_->compute("silu", tensor::loop_over(out, 2, 6));
  if (call.use) call.sums = out;
  return result;
}

/// From the gradient of the gathered output to that of this rank's own outputs.
Pending GatheredLinear::reduce(const Tensor& gradient) const {
  const LayerScope scope(name());
  const Axes axes = gathered_axes();
  if (spec_.output != Output::kEach) return Pending(own_columns(*mesh_, gradient, axes));
  return tensor::reduce_scatter(mesh_->comm(axes),
                                stack_columns(*mesh_, gradient, mesh_->size(axes)));
}

/// The gradients of the input, of the weight, which the parameter collects, and of the bias.
variable_list GatheredLinear::backward_products(Call& call) const {
  const LayerScope scope(name());
  Tensor gradient = call.gradient.wait();
  if (spec_.silu) {
    Tensor of_sums = at::empty_like(gradient);
    kernels::silu_backward(gradient, std::exchange(call.sums, Tensor()), of_sums);
    mesh_->compute("silu dI", tensor::loop_over(gradient, 3, 10));
    gradient = of_sums;
  }
  const Tensor bias_gradient = kernels::column_sums(gradient);
  mesh_->compute("bias dB", tensor::loop_over(gradient, 1, 1));
  const Tensor& input = call.input.get();
  Parameter::Slot slot = call.use->slot(input.scalar_type());
  tensor::product(*mesh_, "linear dW", slot.tensor, gradient.t(), input, slot.into);
  call.use->end();
  if (!mesh_->overlap().input_gradients) call.in_flight->sums_issued();
  Tensor input_gradient;
  if (spec_.input_gradient) {
    input_gradient = at::empty_like(input);
    tensor::product(*mesh_, "linear dI", input_gradient, gradient,
                    weight_->gather(*call.in_flight));
  }
  call.in_flight->sums_issued();
  return {input_gradient, Tensor(), bias_gradient};
}

Flow<Tensor> GatheredLinear::flow(Tensor input, const Pass& pass) const {
  FOURFOLD_CHECK(input.dim() == 2 && input.size(1) == spec_.in && input.is_contiguous(), name(),
                 ": the input is a matrix of all ", spec_.in, " columns");
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
        const Tensor own = multiply(*call, in[0].detach());
        const LayerScope scope(name());
        call->output = tensor::all_gather(mesh_->comm(gathered_axes()), own);
        return {placeholder(options)};
      },
      [this, call](const variable_list&) -> variable_list { return backward_products(*call); });
  input = Tensor();
  co_await Turn{call->output.under_way()};

  co_return node(
      name(), passed,
      [&](const variable_list&) -> variable_list {
        const LayerScope scope(name());
        return {merge_columns(*mesh_, call->output.wait(), mesh_->size(gathered_axes()))};
      },
      [this, call, options](const variable_list& gradients) -> variable_list {
        call->gradient = reduce(gradients[0].contiguous());
        return {placeholder(options)};
      })[0];
}

}  // namespace fourfold::nn
