// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/conv.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/nn/columns.hpp"
#include "fourfold/nn/conv_work.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/rows.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axis;
using kernels::Into;
using tensor::Pending;

std::string Conv::misfit(const ConvSpec& spec, const grid::Sizes& sizes) {
  const std::int64_t contracts = spec.transposed ? sizes.y : sizes.x;
  const std::int64_t produces = spec.transposed ? sizes.x : sizes.y;
  const std::string contract = spec.transposed ? "y" : "x";
  const std::string produce = spec.transposed ? "x" : "y";
  std::string reason;
  for (const ConvTerm& term : spec.terms) {
    const bool columns = spec.input == Spread::kColumns;
    if (reason.empty()) {
      reason = cannot_split(term.name, "input channels", term.in,
                            contracts * (columns ? produces : 1), columns ? "x times y" : contract);
    }
  }
  if (!reason.empty()) return reason;
  const bool columns = spec.output == Spread::kColumns;
  return cannot_split(spec.name, "output channels", spec.out, produces * (columns ? contracts : 1),
                      columns ? "x times y" : produce);
}

Conv::Conv(const Mesh& mesh, const ConvSpec& spec, const Precision& precision, std::uint64_t seed)
    : Layer(mesh, spec.name),
      spec_(spec),
      contract_(spec.transposed ? Axis::kY : Axis::kX),
      produce_(spec.transposed ? Axis::kX : Axis::kY),
      input_chunks_(spec.input == Spread::kColumns ? mesh.size(produce_) : 1),
      output_chunks_(spec.output == Spread::kColumns ? mesh.size(contract_) : 1) {
  FOURFOLD_CHECK(spec.input != Spread::kRows && spec.output != Spread::kRows, spec.name,
                 ": a rank has whole images");
  const std::string reason = misfit(spec, {.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
  for (const Axis axis : {contract_, produce_}) mesh.join(axis);
  for (const ConvTerm& term : spec.terms) {
    weights_.push_back(declare(ParameterSpec{.name = term.name,
                                             .shape = {spec.out, term.shape.taps(), term.in},
                                             .kept = produce_,
                                             .gathered = Axis::kZ,
                                             .columns = contract_,
                                             .summed = Axis::kZ,
                                             .deviation = term.deviation},
                               precision, seed));
  }
  if (spec.bias) bias_ = declare_bias(spec.name + ".bias", precision, seed);
  for (const ConvTerm& term : spec.terms) {
    if (!term.bias.empty()) term_biases_.push_back(declare_bias(term.bias, precision, seed));
  }
}

ParameterPtr Conv::declare_bias(const std::string& name, const Precision& precision,
                                std::uint64_t seed) {
  ParameterSpec bias{.name = name, .shape = {spec_.out}};
  if (spec_.output == Spread::kColumns) {
    bias.kept = {produce_, contract_};
    bias.gathered = bias.summed = Axis::kZ;
  } else {
    bias.kept = produce_;
    bias.gathered = {contract_, Axis::kZ};
    bias.summed = Axis::kZ;
  }
  return declare(bias, Precision{precision.master, precision.master}, seed);
}

Tensor Conv::bias_of(const Pass& pass) const {
  Tensor sum = pass.vector(bias_);
  for (const ParameterPtr& one : term_biases_) {
    const Tensor more = pass.vector(one);
    sum = sum.defined() ? residual(*mesh_, sum, more, name()) : more;
  }
  return sum;
}

double Conv::flops(const Batch& batch) const {
  double sum = 0;
  for (const ConvTerm& term : spec_.terms) {
    sum += 2.0 * static_cast<double>(term.in * term.shape.taps() * spec_.out) *
           static_cast<double>(batch.samples * term.shape.out_pixels());
  }
  return sum;
}

// --- communication

bool Conv::gathers_input() const {
  return spec_.input != Spread::kCopies && mesh_->size(produce_) > 1;
}

Pending Conv::gather_input(const Tensor& input) const {
  const LayerScope scope(name());
  if (spec_.input == Spread::kCopies) return Pending(input);
  return tensor::all_gather(mesh_->comm(produce_), input);
}

Pending Conv::reduce_input_gradient(const Tensor& partial) const {
  const LayerScope scope(name());
  const comm::Communicator& comm = mesh_->comm(produce_);
  if (spec_.input == Spread::kCopies) return tensor::all_reduce(comm, partial);
  return tensor::reduce_scatter(comm, partial);
}

Pending Conv::reduce_output(const Tensor& partial) const {
  const LayerScope scope(name());
  const comm::Communicator& comm = mesh_->comm(contract_);
  if (spec_.output == Spread::kCopies) return tensor::all_reduce(comm, partial);
  return tensor::reduce_scatter(comm, partial);
}

Pending Conv::gather_output_gradient(const Tensor& gradient) const {
  const LayerScope scope(name());
  if (spec_.output == Spread::kCopies) return Pending(gradient);
  return tensor::all_gather(mesh_->comm(contract_), gradient);
}

// --- pieces of columns. Windows reach over several pixels, so that a kernel needs all columns of a
// pixel side by side. Products of single pixels take the pieces as they are.

namespace {

/// Piece `index` of `count` along dimension `dim`.
Tensor piece(const Tensor& whole, std::int64_t dim, std::int64_t index, std::int64_t count) {
  if (count == 1) return whole;
  const std::int64_t size = whole.size(dim) / count;
  return whole.narrow(dim, index * size, size);
}

}  // namespace

// --- products

/// Adds the convolution of an input, whose pieces lie one below the other, to `out`, or makes
/// `out`.
void Conv::add_term(Tensor& out, const ConvTerm& term, const Tensor& stacked,
                    const Tensor& weight) const {
  if (term.shape.is_pointwise()) {
    const bool first = !out.defined();
    if (first) {
      out = at::empty({stacked.size(0) / input_chunks_, weight.size(0)}, stacked.options());
    }
    for (std::int64_t i = 0; i < input_chunks_; ++i) {
      tensor::product(*mesh_, "conv", out, piece(stacked, 0, i, input_chunks_),
                      piece(weight.flatten(1), 1, i, input_chunks_).t(),
                      first && i == 0 ? Into::kNew : Into::kSum);
    }
    return;
  }
  const Tensor input = merge_columns(*mesh_, stacked, input_chunks_);
  const Tensor result = conv(*mesh_, input, weight, term.shape);
  if (!out.defined()) {
    out = result;
  } else {
    tensor::add_to(*mesh_, "conv sum", out, result);
  }
}

Tensor Conv::input_gradient(const ConvTerm& term, const Tensor& gradient,
                            const Tensor& weight) const {
  if (!term.shape.is_pointwise()) {
    return stack_columns(*mesh_, conv_input_gradient(*mesh_, gradient, weight, term.shape),
                         input_chunks_);
  }
  const Tensor flat = weight.flatten(1);
  Tensor out = at::empty({input_chunks_ * gradient.size(0), flat.size(1) / input_chunks_},
                         gradient.options());
  for (std::int64_t i = 0; i < input_chunks_; ++i) {
    Tensor target = piece(out, 0, i, input_chunks_);
    tensor::product(*mesh_, "conv dI", target, gradient, piece(flat, 1, i, input_chunks_),
                    Into::kNew);
  }
  return out;
}

// --- forward and backward

/// One call of the layer: what its nodes share, and what is in flight between them.
struct Conv::Call final : tensor::GatherAgain::Input {
  explicit Call(const Conv& layer) : conv(&layer) {}
  void start() override {
    if (inputs.empty()) return;
    gathered_inputs.clear();
    for (Tensor& input : inputs) gathered_inputs.push_back(conv->gather_input(input));
    inputs.clear();
  }

  const Conv* conv;
  tensor::InFlight* in_flight = nullptr;
  std::vector<std::shared_ptr<Parameter::Use>> uses;  ///< null while no graph is made
  Tensor bias;
  std::vector<Tensor> inputs;  ///< kept for the backward pass
  std::vector<Pending> gathered_inputs;
  Pending output;
  Pending gathered_gradient;
  std::vector<Pending> input_gradients;
  bool reached = false;  ///< whether the backward pass has reached it

  bool makes_graph() const { return uses.front() != nullptr; }
};

Tensor Conv::multiply(Call& call) const {
  const LayerScope scope(name());
  Tensor out;
  for (std::size_t i = 0; i < spec_.terms.size(); ++i) {
    add_term(out, spec_.terms[i], call.gathered_inputs[i].wait(),
             weights_[i]->gather(*call.in_flight));
  }
  return stack_columns(*mesh_, out, output_chunks_);
}

void Conv::weight_gradient(Call& call, std::size_t index, const Tensor& gradient) const {
  const LayerScope scope(name());
  const ConvTerm& term = spec_.terms[index];
  Parameter::Use& use = *call.uses[index];
  const Tensor stacked = call.gathered_inputs[index].wait();
  if (!term.shape.is_pointwise()) {
    return conv_weight_gradient(*mesh_, use, gradient,
                                merge_columns(*mesh_, stacked, input_chunks_), term.shape);
  }
  const Parameter::Slot slot = use.slot(stacked.scalar_type());
  const Tensor flat = slot.tensor.flatten(1);
  for (std::int64_t i = 0; i < input_chunks_; ++i) {
    Tensor target = piece(flat, 1, i, input_chunks_);
    tensor::product(*mesh_, "conv dW", target, gradient.t(), piece(stacked, 0, i, input_chunks_),
                    slot.into);
  }
  use.end();
}

void Conv::backward_products(Call& call) const {
  const LayerScope scope(name());
  const tensor::Overlap& overlap = mesh_->overlap();
  const Tensor gradient = merge_columns(*mesh_, call.gathered_gradient.wait(), output_chunks_);
  const auto for_inputs = [&] {
    for (std::size_t i = 0; i < spec_.terms.size(); ++i) {
      const Tensor weight = weights_[i]->gather(*call.in_flight);
      call.input_gradients.push_back(
          reduce_input_gradient(input_gradient(spec_.terms[i], gradient, weight)));
      if (!overlap.input_gradients) call.input_gradients.back().finish();
    }
  };
  // The products for the weights overlap with the reductions of the others.
  const bool inputs_first = mesh_->size(produce_) > 1;
  if (inputs_first) for_inputs();
  for (std::size_t i = 0; i < spec_.terms.size(); ++i) weight_gradient(call, i, gradient);
  if (!overlap.input_gradients) call.in_flight->sums_issued();
  if (!inputs_first) for_inputs();
  call.in_flight->sums_issued();
}

Flow<Tensor> Conv::flow(std::vector<Tensor> inputs, const Pass& pass) const {
  FOURFOLD_CHECK_EQ(inputs.size(), spec_.terms.size(), name(), ": an input for each term");
  const Tensor bias = bias_of(pass);
  const auto call = std::make_shared<Call>(*this);
  const at::TensorOptions options = inputs.front().options();
  call->in_flight = &pass.in_flight();
  call->bias = bias.defined() ? bias.detach() : Tensor();
  for (const ParameterPtr& weight : weights_) call->uses.push_back(weight->use(pass.in_flight()));
  variable_list first = inputs;
  for (const ParameterPtr& weight : weights_) first.push_back(weight->leaf());
  const std::size_t count = inputs.size();
  if (call->makes_graph()) {
    for (const Tensor& input : inputs) call->inputs.push_back(input.detach());
  }
  variable_list passed = node(
      name(), first,
      [&](const variable_list& in) -> variable_list {
        for (std::size_t i = 0; i < count; ++i) {
          call->gathered_inputs.push_back(gather_input(in[i].detach()));
        }
        return {placeholder(options)};
      },
      [call, count](const variable_list&) -> variable_list {
        variable_list gradients(2 * count);
        for (std::size_t i = 0; i < count; ++i) gradients[i] = call->input_gradients[i].wait();
        return gradients;
      });
  inputs.clear();
  first.clear();
  co_await Turn{call->gathered_inputs.front().under_way()};

  passed = node(
      name(), passed,
      [&](const variable_list&) -> variable_list {
        if (call->makes_graph() && gathers_input()) pass.in_flight().inputs().passed(call);
        call->output = reduce_output(multiply(*call));
        return {placeholder(options)};
      },
      [this, call, options](const variable_list&) -> variable_list {
        backward_products(*call);
        return {placeholder(options)};
      });
  co_await Turn{call->output.under_way()};

  if (bias.defined()) passed.push_back(bias);
  co_return node(
      name(), passed,
      [&](const variable_list&) -> variable_list {
        Tensor out = call->output.wait();
        if (call->bias.defined()) {
          const LayerScope scope(name());
          kernels::add_to_rows_of(out, call->bias);
          mesh_->compute("bias", tensor::loop_over(out, 2, 1));
        }
        return {out};
      },
      [this, call, options](const variable_list& gradients) -> variable_list {
        const Tensor gradient = gradients[0].contiguous();
        FOURFOLD_CHECK(!std::exchange(call->reached, true), name(), ": a second backward pass");
        call->gathered_gradient = gather_output_gradient(gradient);
        if (gathers_input()) {
          call->in_flight->inputs().reached(*call);
        } else {
          call->start();
        }
        if (!call->bias.defined()) return {placeholder(options)};
        const LayerScope scope(name());
        const Tensor sums = kernels::column_sums(gradient);
        mesh_->compute("bias dB", tensor::loop_over(gradient, 1, 1));
        return {placeholder(options), sums};
      })[0];
}

}  // namespace fourfold::nn
