// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/linear.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using kernels::Into;
using tensor::Pending;

namespace {

std::string indivisible(const LinearSpec& spec, const char* what, std::int64_t size, Axis axis,
                        std::int64_t by) {
  if (size % by == 0) return {};
  return concat(spec.name, ": ", size, " ", what, " cannot be split over ", axis, "=", by,
                "; choose a size of ", axis, " that divides it");
}

}  // namespace

std::string Linear::misfit(const LinearSpec& spec, const grid::Sizes& sizes) {
  const Axis contract = spec.transposed ? Axis::kY : Axis::kX;
  const Axis produce = spec.transposed ? Axis::kX : Axis::kY;
  const std::int64_t contracts = spec.transposed ? sizes.y : sizes.x;
  const std::int64_t produces = spec.transposed ? sizes.x : sizes.y;
  std::string reason = indivisible(spec, "inputs", spec.in, contract, contracts);
  if (reason.empty()) reason = indivisible(spec, "outputs", spec.out, produce, produces);
  if (reason.empty() && spec.input == Spread::kColumns) {
    reason = indivisible(spec, "inputs of a rank", spec.in / contracts, produce, produces);
  }
  if (reason.empty() && spec.output == Spread::kColumns) {
    reason = indivisible(spec, "outputs of a rank", spec.out / produces, contract, contracts);
  }
  return reason;
}

Linear::Linear(const Mesh& mesh, const LinearSpec& spec, const Precision& precision,
               std::uint64_t seed)
    : ProductLayer(mesh, spec),
      contract_(spec.transposed ? Axis::kY : Axis::kX),
      produce_(spec.transposed ? Axis::kX : Axis::kY),
      input_chunks_(spec.input == Spread::kColumns ? mesh.size(produce_) : 1),
      output_chunks_(spec.output == Spread::kColumns ? mesh.size(contract_) : 1) {
  const std::string reason = misfit(spec, {.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
  for (const Axis axis : {contract_, produce_}) mesh.join(axis);
  weight_ = declare(ParameterSpec{.name = spec.name + ".weight",
                                  .shape = {spec.out, spec.in},
                                  .kept = produce_,
                                  .gathered = Axis::kZ,
                                  .columns = contract_,
                                  .summed = Axis::kZ,
                                  .deviation = spec.deviation},
                    precision, seed);
  if (!spec.bias) return;
  ParameterSpec bias{.name = spec.name + ".bias", .shape = {spec.out}};
  if (spec.output == Spread::kColumns) {
    bias.kept = {produce_, contract_};
    bias.gathered = bias.summed = Axis::kZ;
  } else {
    bias.kept = produce_;
    bias.gathered = {contract_, Axis::kZ};
    bias.summed = spec.output == Spread::kRows ? bias.gathered : Axes(Axis::kZ);
  }
  bias_ = declare(bias, Precision{precision.master, precision.master}, seed);
}

// --- communication

bool Linear::gathers_input() const {
  return spec_.input != Spread::kCopies && mesh_->size(produce_) > 1;
}

Pending Linear::gather_input(const Tensor& input) const {
  const LayerScope scope(spec_.name);
  if (spec_.input == Spread::kCopies) return Pending(input);
  return tensor::all_gather(mesh_->comm(produce_), input);
}

Pending Linear::reduce_input_gradient(const Tensor& partial) const {
  const LayerScope scope(spec_.name);
  const comm::Communicator& comm = mesh_->comm(produce_);
  if (spec_.input == Spread::kCopies) return tensor::all_reduce(comm, partial);
  return tensor::reduce_scatter(comm, partial);
}

Pending Linear::reduce_output(const Tensor& partial) const {
  const LayerScope scope(spec_.name);
  const comm::Communicator& comm = mesh_->comm(contract_);
  if (spec_.output == Spread::kCopies) return tensor::all_reduce(comm, partial);
  return tensor::reduce_scatter(comm, partial);
}

Pending Linear::gather_output_gradient(const Tensor& gradient) const {
  const LayerScope scope(spec_.name);
  if (spec_.output == Spread::kCopies) return Pending(gradient);
  return tensor::all_gather(mesh_->comm(contract_), gradient);
}

// --- products. Columns that were gathered, or will be scattered, lie in chunks one below the
// other, so that gathering and scattering need no copies.

namespace {

/// Piece `index` of `count` along dimension `dim`.
Tensor piece(const Tensor& whole, std::int64_t dim, std::int64_t index, std::int64_t count) {
  if (count == 1) return whole;
  const std::int64_t size = whole.size(dim) / count;
  return whole.narrow(dim, index * size, size);
}

}  // namespace

Tensor Linear::multiply(const Tensor& input, const Tensor& weight, const Tensor& bias) const {
  const LayerScope scope(spec_.name);
  const std::int64_t rows = input.size(0) / input_chunks_;
  Tensor out = at::empty({output_chunks_ * rows, weight.size(0) / output_chunks_}, input.options());
  const bool starts_with_bias = bias.defined() && mesh_->size(contract_) == 1;
  if (starts_with_bias) {
    out.copy_(bias.expand_as(out));
    mesh_->compute("bias", tensor::loop_over(out, 1));
  }
  for (std::int64_t j = 0; j < output_chunks_; ++j) {
    Tensor target = piece(out, 0, j, output_chunks_);
    const Tensor weight_rows = piece(weight, 0, j, output_chunks_);
    for (std::int64_t i = 0; i < input_chunks_; ++i) {
      const Into into = i > 0 || starts_with_bias ? Into::kSum : Into::kNew;
      tensor::product(*mesh_, "linear", target, piece(input, 0, i, input_chunks_),
                      piece(weight_rows, 1, i, input_chunks_).t(), into);
    }
  }
  return out;
}

Tensor Linear::input_gradient(const Tensor& gradient, const Tensor& weight) const {
  const LayerScope scope(spec_.name);
  const std::int64_t rows = gradient.size(0) / output_chunks_;
  Tensor out =
      at::empty({input_chunks_ * rows, weight.size(1) / input_chunks_}, gradient.options());
  for (std::int64_t i = 0; i < input_chunks_; ++i) {
    Tensor target = piece(out, 0, i, input_chunks_);
    const Tensor weight_columns = piece(weight, 1, i, input_chunks_);
    for (std::int64_t j = 0; j < output_chunks_; ++j) {
      tensor::product(*mesh_, "linear dI", target, piece(gradient, 0, j, output_chunks_),
                      piece(weight_columns, 0, j, output_chunks_), j > 0 ? Into::kSum : Into::kNew);
    }
  }
  return out;
}

void Linear::weight_gradient(const Tensor& gradient, const Tensor& input,
                             Parameter::Use& use) const {
  const LayerScope scope(spec_.name);
  const Parameter::Slot slot = use.slot(input.scalar_type());
  for (std::int64_t j = 0; j < output_chunks_; ++j) {
    const Tensor target_rows = piece(slot.tensor, 0, j, output_chunks_);
    for (std::int64_t i = 0; i < input_chunks_; ++i) {
      Tensor target = piece(target_rows, 1, i, input_chunks_);
      tensor::product(*mesh_, "linear dW", target, piece(gradient, 0, j, output_chunks_).t(),
                      piece(input, 0, i, input_chunks_), slot.into);
    }
  }
  use.end();
}

// --- forward and backward

/// One call of the layer: what its nodes share, and what is in flight between them.
struct Linear::Call final : tensor::GatherAgain::Input {
  explicit Call(const Linear& layer) : linear(&layer) {}
  void start() override {
    if (input.defined()) gathered_input = linear->gather_input(std::exchange(input, Tensor()));
  }

  const Linear* linear;
  std::shared_ptr<Parameter::Use> use;  ///< null while no graph is made
  Tensor bias;
  Tensor input;  ///< kept for the backward pass
  Pending gathered_input;
  Pending output;
  Pending gathered_gradient;
  Pending input_gradient;
  bool reached = false;  ///< whether the backward pass has reached it
};

void Linear::backward_products(Call& call) const {
  const tensor::Overlap& overlap = mesh_->overlap();
  tensor::InFlight& in_flight = call.use->in_flight();
  const Tensor gradient = call.gathered_gradient.wait();
  const auto for_input = [&] {
    call.input_gradient =
        reduce_input_gradient(input_gradient(gradient, weight_->gather(in_flight)));
    if (!overlap.input_gradients) call.input_gradient.finish();
  };
  // One product overlaps with the reduction of the other product.
  const bool input_first = mesh_->size(produce_) > 1;
  if (input_first) for_input();
  weight_gradient(gradient, call.gathered_input.wait(), *call.use);
  if (!overlap.input_gradients) in_flight.sums_issued();
  if (!input_first) for_input();
  in_flight.sums_issued();
}

// The layer has three nodes, with communication between them in both directions. Forward: gather
// the input; compute the product; end its sum over ranks. Backward: gather the gradient; compute
// both products; end the sum of the input's gradient.
Flow<Tensor> Linear::flow(Tensor input, const Pass& pass) const {
  FOURFOLD_CHECK_EQ(input.dim(), 2, spec_.name, ": the input is a matrix");
  const Tensor bias = pass.vector(bias_);
  const auto call = std::make_shared<Call>(*this);
  const at::TensorOptions options = input.options();
  tensor::InFlight& in_flight = pass.in_flight();
  call->use = weight_->use(in_flight);
  call->bias = bias.defined() ? bias.detach() : Tensor();
  if (call->use) call->input = input.detach();
  variable_list passed = node(
      spec_.name, {input, weight_->leaf()},
      [&](const variable_list& in) -> variable_list {
        call->gathered_input = gather_input(in[0].detach());
        return {placeholder(options)};
      },
      [call](const variable_list&) -> variable_list {
        return {call->input_gradient.wait(), Tensor()};
      });
  input = Tensor();
  co_await Turn{call->gathered_input.under_way()};

  passed = node(
      spec_.name, passed,
      [&](const variable_list&) -> variable_list {
        const Tensor rows = call->gathered_input.wait();
        if (call->use && gathers_input()) in_flight.inputs().passed(call);
        call->output = reduce_output(multiply(rows, weight_->gather(in_flight), call->bias));
        return {placeholder(options)};
      },
      [this, call, options](const variable_list&) -> variable_list {
        backward_products(*call);
        return {placeholder(options)};
      });
  co_await Turn{call->output.under_way()};

  if (bias.defined()) passed.push_back(bias);
  co_return node(
      spec_.name, passed,
      [&](const variable_list&) -> variable_list {
        Tensor out = call->output.wait();
        const bool add_bias = call->bias.defined() && mesh_->size(contract_) > 1;
        if (add_bias) {
          const LayerScope scope(spec_.name);
          kernels::add_to_rows_of(out, call->bias);
          mesh_->compute("bias", tensor::loop_over(out, 2, 1));
        }
        return {out};
      },
      [this, call, options](const variable_list& gradients) -> variable_list {
        const Tensor gradient = gradients[0].contiguous();
        FOURFOLD_CHECK(!std::exchange(call->reached, true), spec_.name, ": a second backward pass");
        call->gathered_gradient = gather_output_gradient(gradient);
        if (gathers_input()) {
          call->use->in_flight().inputs().reached(*call);
        } else {
          call->start();
        }
        if (!bias_) return {placeholder(options)};
        const LayerScope scope(spec_.name);
        const Tensor sums = kernels::column_sums(gradient);
        mesh_->compute("bias dB", tensor::loop_over(gradient, 1, 1));
        return {placeholder(options), sums};
      })[0];
}

}  // namespace fourfold::nn
