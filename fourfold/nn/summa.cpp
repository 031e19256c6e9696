// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/summa.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using kernels::Into;
using tensor::MemoryClass;
using tensor::MemoryScope;
using tensor::Panels;
using tensor::PanelSums;
using tensor::Purpose;

std::string square_misfit(const grid::Sizes& sizes) {
  if (sizes.x == sizes.y) return {};
  return concat("SUMMA multiplies on a square of ranks: x=", sizes.x, " and y=", sizes.y,
                " must be equal");
}

void check_square(const Mesh& mesh) {
  const std::string reason = square_misfit({.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
}

ParameterSpec summa_weight(const Mesh& mesh, const std::string& name, const grid::Shape& shape,
                           double deviation) {
  ParameterSpec spec{
      .name = name, .shape = shape, .kept = Axis::kX, .columns = Axis::kY, .deviation = deviation};
  if (mesh.size(Axis::kZ) > 1) spec.replicas = {Axis::kData, Axis::kZ};
  return spec;
}

SummaProduct::SummaProduct(const Mesh& mesh, ParameterPtr weight, const Names& names)
    : mesh_(&mesh), weight_(std::move(weight)), names_(names), steps_(mesh.size(Axis::kX)) {
  FOURFOLD_CHECK_EQ(mesh.size(Axis::kY), steps_, "SUMMA on ranks that are no square");
  mesh.join(Axis::kX);
  mesh.join(Axis::kY, Purpose::kWeights);
  mesh.join(Axis::kY, Purpose::kGradients);
}

/// One call of the layer: what its nodes share, and what is in flight between them.
struct SummaProduct::Call {
  std::shared_ptr<Parameter::Use> use;  ///< null while no graph is made
  Tensor bias;
  Tensor input;  ///< kept for the backward pass: this rank's block
  Panels inputs;
  Panels weights;
  PanelSums input_gradient;
};

Panels SummaProduct::input_panels(const Tensor& input) const {
  return {mesh_->comm(Axis::kX), input, ahead()};
}

/// The panels of weights have another lane than activations: weights are known in advance and must
/// not wait for activations.
Panels SummaProduct::weight_panels() const {
  weight_->wait_for_values();
  return {mesh_->comm(Axis::kY, Purpose::kWeights), weight_->value().detach(), ahead()};
}

/// O(i,j) = sum over t of I(i,t) · W(t)ᵀ, where W(t) is the block of row t in this column.
Tensor SummaProduct::multiply(Call& call) const {
  const LayerScope scope(weight_->layer());
  Panels inputs = std::exchange(call.inputs, {});
  Panels weights = std::exchange(call.weights, {});
  Tensor out;
  for (int t = 0; t < steps_; ++t) {
    inputs.start();
    weights.start();
    const Tensor input = inputs.next();
    const Tensor weight = weights.next();
    if (t == 0) {
      // Sums of several products of bf16 are rounded once, at the end.
      const auto type =
          steps_ > 1 ? kernels::statistics_type(input.scalar_type()) : input.scalar_type();
      out = at::empty({input.size(0), weight.size(0)}, input.options().dtype(type));
      if (call.bias.defined()) {
        out.copy_(call.bias.expand_as(out));
        mesh_->compute("bias", tensor::loop_over(out, 1));
      }
    }
    const Into into = t > 0 || call.bias.defined() ? Into::kSum : Into::kNew;
    tensor::product(*mesh_, names_.forward, out, input, weight.t(), into);
  }
  return tensor::cast(*mesh_, "sum cast", out, weight_->leaf().scalar_type());
}

/// dI(i,t) = sum over j of dO(i,j) · W(t), which goes to column t. The first panel of the next
/// product, one of `inputs`, is sent during the last step.
void SummaProduct::multiply_for_input(Call& call, const Tensor& gradient, Panels weights,
                                      Panels& inputs) const {
  const LayerScope scope(weight_->layer());
  call.input_gradient =
      PanelSums(mesh_->comm(Axis::kX), {gradient.size(0), weight_->leaf().size(1)},
                gradient.options(), comm::Priority::kUrgent, ahead());
  for (int t = 0; t < steps_; ++t) {
    weights.start();
    if (t + 1 == steps_) inputs.start();
    const Tensor weight = weights.next();
    Tensor summand = call.input_gradient.summand();
    tensor::product(*mesh_, names_.input_gradient, summand, gradient, weight);
    call.input_gradient.send();
  }
}

/// The gradient of W(t) = sum over i of dO(i,j)ᵀ · I(i,t), which goes to row t.
void SummaProduct::multiply_for_weight(Call& call, const Tensor& gradient, Panels inputs) const {
  const LayerScope layer(weight_->layer());
  if (steps_ == 1) {
    const Tensor input = inputs.next();
    Parameter::Slot slot = call.use->slot(input.scalar_type());
    tensor::product(*mesh_, names_.weight_gradient, slot.tensor, gradient.t(), input, slot.into);
    call.use->end();
    return;
  }
  const MemoryScope scope(MemoryClass::kCommunication);
  const Tensor& weight = weight_->leaf();
  const bool later = mesh_->overlap().weight_gradients;
  const auto sums = std::make_shared<PanelSums>(
      mesh_->comm(Axis::kY, Purpose::kGradients), weight.sizes().vec(), weight.options(),
      later ? comm::Priority::kBackground : comm::Priority::kUrgent, ahead());
  for (int t = 0; t < steps_; ++t) {
    inputs.start();
    const Tensor input = inputs.next();
    Tensor summand = sums->summand();
    tensor::product(*mesh_, names_.weight_gradient, summand, gradient.t(), input);
    sums->send();
  }
  // The memory is that of two summands and the sum.
  call.use->end_later(3 * static_cast<std::int64_t>(weight.nbytes()),
                      [sums] { return sums->wait(); });
}

variable_list SummaProduct::backward(Call& call, const Tensor& gradient) const {
  FOURFOLD_CHECK(call.input.defined(), weight_->name(), ": a second backward pass");
  const tensor::Overlap& overlap = mesh_->overlap();
  Panels weights = weight_panels();
  Panels inputs = input_panels(std::exchange(call.input, Tensor()));
  const LayerScope scope(weight_->layer());
  weights.start();
  variable_list result = {placeholder(gradient.options())};
  if (call.bias.defined()) {
    result.push_back(kernels::column_sums(gradient));
    mesh_->compute("bias dB", tensor::loop_over(gradient, 1, 1));
  }
  multiply_for_input(call, gradient, std::move(weights), inputs);
  if (!overlap.input_gradients) call.input_gradient.finish();
  multiply_for_weight(call, gradient, std::move(inputs));
  call.use->in_flight().sums_issued();
  return result;
}

// The product has two nodes, with communication between them in both directions. Forward: send the
// first panels; compute the product. Backward: compute both products; end the sums of the input's
// gradient.
Flow<Tensor> SummaProduct::flow(Tensor input, Tensor bias, const Pass& pass) const {
  FOURFOLD_CHECK_EQ(input.dim(), 2, weight_->name(), ": the input is a matrix");
  FOURFOLD_CHECK_EQ(input.size(1), weight_->leaf().size(1), weight_->name());
  FOURFOLD_CHECK(input.is_contiguous());
  const auto call = std::make_shared<Call>();
  const at::TensorOptions options = input.options();
  call->use = weight_->use(pass.in_flight());
  call->bias = bias.defined() ? bias.detach() : Tensor();
  if (call->use) call->input = input.detach();
  variable_list passed = node(
      weight_->layer(), {input, weight_->leaf()},
      [&](const variable_list& in) -> variable_list {
        call->inputs = input_panels(in[0].detach());
        call->weights = weight_panels();
        const LayerScope scope(weight_->layer());
        call->inputs.start();
        call->weights.start();
        return {placeholder(options)};
      },
      [call](const variable_list&) -> variable_list {
        return {call->input_gradient.wait(), Tensor()};
      });
  input = Tensor();
  co_await Turn{steps_ > 1};

  if (bias.defined()) passed.push_back(bias);
  co_return node(
      weight_->layer(), passed,
      [&](const variable_list&) -> variable_list { return {multiply(*call)}; },
      [this, call](const variable_list& gradients) {
        return backward(*call, gradients[0].contiguous());
      })[0];
}

// --- the linear layer

std::string SummaLinear::misfit(const LinearSpec& spec, const grid::Sizes& sizes) {
  std::string reason = square_misfit(sizes);
  for (const auto& [what, size] : {std::pair{"inputs", spec.in}, std::pair{"outputs", spec.out}}) {
    if (!reason.empty() || size % sizes.x == 0) continue;
    reason = concat(spec.name, ": ", size, " ", what, " cannot be split over x=", sizes.x,
                    " and y=", sizes.y, "; choose sizes that divide it");
  }
  return reason;
}

SummaLinear::SummaLinear(const Mesh& mesh, const LinearSpec& spec, const Precision& precision,
                         std::uint64_t seed)
    : ProductLayer(mesh, spec) {
  const std::string reason = misfit(spec, {.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
  weight_ = declare(summa_weight(mesh, spec.name + ".weight", {spec.out, spec.in}, spec.deviation),
                    precision, seed);
  product_ = std::make_unique<SummaProduct>(
      mesh, weight_, SummaProduct::Names{"linear", "linear dI", "linear dW"});
  if (!spec.bias) return;
  ParameterSpec bias{.name = spec.name + ".bias",
                     .shape = {spec.out},
                     .kept = Axis::kX,
                     .gathered = {Axis::kY, Axis::kZ},
                     .summed = {Axis::kY, Axis::kZ}};
  bias_ = declare(bias, Precision{precision.master, precision.master}, seed);
}

Flow<Tensor> SummaLinear::flow(Tensor input, const Pass& pass) const {
  return product_->flow(std::move(input), pass.vector(bias_), pass);
}

}  // namespace fourfold::nn
