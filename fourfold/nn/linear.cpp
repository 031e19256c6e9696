// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/linear.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/nn/function.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/mixed_kernels.hpp"
#include "fourfold/tensor/product.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;
using tensor::Into;
using tensor::MemoryClass;
using tensor::MemoryScope;
using tensor::Pending;

namespace {

void check_divides(const LinearSpec& spec, const char* what, std::int64_t size, Axis axis, int by) {
  if (size % by != 0) {
    throw ConfigError(concat(spec.name, ": ", size, " ", what, " cannot be split over ", axis, "=",
                             by, "; choose a size of ", axis, " that divides it"));
  }
}

}  // namespace

Linear::Linear(const Mesh& mesh, const LinearSpec& spec, const Precision& precision,
               std::uint64_t seed)
    : mesh_(&mesh),
      spec_(spec),
      contract_(spec.transposed ? Axis::kY : Axis::kX),
      produce_(spec.transposed ? Axis::kX : Axis::kY),
      input_chunks_(spec.input == Spread::kColumns ? mesh.size(produce_) : 1),
      output_chunks_(spec.output == Spread::kColumns ? mesh.size(contract_) : 1) {
  check_divides(spec, "inputs", spec.in, contract_, mesh.size(contract_));
  check_divides(spec, "outputs", spec.out, produce_, mesh.size(produce_));
  check_divides(spec, "inputs of a rank", spec.in / mesh.size(contract_), produce_,
                static_cast<int>(input_chunks_));
  check_divides(spec, "outputs of a rank", spec.out / mesh.size(produce_), contract_,
                static_cast<int>(output_chunks_));
  weight_ = std::make_shared<Parameter>(mesh,
                                        ParameterSpec{.name = spec.name + ".weight",
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
  bias_ =
      std::make_shared<Parameter>(mesh, bias, Precision{precision.master, precision.master}, seed);
}

Parameters Linear::parameters() const {
  Parameters all = {weight_};
  if (bias_) all.push_back(bias_);
  return all;
}

// --- communication

Pending Linear::gather_input(const Tensor& input) const {
  if (spec_.input == Spread::kCopies) return Pending(input);
  return tensor::all_gather(mesh_->comm(produce_), input);
}

Pending Linear::reduce_input_gradient(const Tensor& partial) const {
  const comm::Communicator& comm = mesh_->comm(produce_);
  if (spec_.input == Spread::kCopies) return tensor::all_reduce(comm, partial);
  return tensor::reduce_scatter(comm, partial);
}

Pending Linear::reduce_output(const Tensor& partial) const {
  const comm::Communicator& comm = mesh_->comm(contract_);
  if (spec_.output == Spread::kCopies) return tensor::all_reduce(comm, partial);
  return tensor::reduce_scatter(comm, partial);
}

Pending Linear::gather_output_gradient(const Tensor& gradient) const {
  if (spec_.output == Spread::kCopies) return Pending(gradient);
  return tensor::all_gather(mesh_->comm(contract_), gradient);
}

// --- products. Columns that were gathered, or will be scattered, lie in chunks one below the
// other, so that neither costs a copy.

namespace {

/// Piece `index` of `count` along dimension `dim`.
Tensor piece(const Tensor& whole, std::int64_t dim, std::int64_t index, std::int64_t count) {
  const std::int64_t size = whole.size(dim) / count;
  return whole.narrow(dim, index * size, size);
}

}  // namespace

Tensor Linear::multiply(const Tensor& input, const Tensor& weight, const Tensor& bias) const {
  const std::int64_t rows = input.size(0) / input_chunks_;
  Tensor out = at::empty({output_chunks_ * rows, weight.size(0) / output_chunks_}, input.options());
  const bool starts_with_bias = bias.defined() && mesh_->size(contract_) == 1;
  if (starts_with_bias) out.copy_(bias.expand_as(out));
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

Pending Linear::weight_gradient(const Tensor& gradient, const Tensor& input) const {
  const auto fill = [&](Tensor& all, Into into) {
    for (std::int64_t j = 0; j < output_chunks_; ++j) {
      const Tensor target_rows = piece(all, 0, j, output_chunks_);
      for (std::int64_t i = 0; i < input_chunks_; ++i) {
        Tensor target = piece(target_rows, 1, i, input_chunks_);
        tensor::product(*mesh_, "linear dW", target, piece(gradient, 0, j, output_chunks_).t(),
                        piece(input, 0, i, input_chunks_), into);
      }
    }
  };
  // Without a reduction to come, the product is made where it belongs, in the parameter's type.
  if (weight_->gradient_comm().size() == 1) {
    Parameter::Slot slot = weight_->gradient_slot();
    fill(slot.tensor, slot.into);
    return {};
  }
  const MemoryScope scope(MemoryClass::kCommunication);
  Tensor all = at::empty({weight_->padded_rows(), weight_->columns()}, input.options());
  const std::int64_t padding = weight_->padded_rows() - weight_->rows();
  if (padding > 0) all.narrow(0, weight_->rows(), padding).zero_();
  Tensor real = all.narrow(0, 0, weight_->rows());
  fill(real, Into::kNew);
  return tensor::reduce_scatter(weight_->gradient_comm(), all);
}

// --- forward and backward

Tensor Linear::run(const Tensor& input, const Tensor& bias) const {
  Pending weight = weight_->gather();
  Pending gathered = gather_input(input);
  const Tensor rows = gathered.wait();
  const Tensor partial = multiply(rows, weight_->trim(weight.wait()), bias);
  Tensor out = reduce_output(partial).wait();
  if (bias.defined() && mesh_->size(contract_) > 1) tensor::add_to_rows_of(out, bias);
  return out;
}

Tensor Linear::backward(const Tensor& gradient, const Tensor& input) const {
  Pending pending_gradient = gather_output_gradient(gradient);
  Pending pending_weight = weight_->gather();
  Pending pending_input = gather_input(input);
  const Tensor whole = pending_gradient.wait();
  Pending reduced_input;
  Pending reduced_weight;
  const auto first_half = [&] {
    const Tensor weight = weight_->trim(pending_weight.wait());
    reduced_input = reduce_input_gradient(input_gradient(whole, weight));
  };
  // One product hides the other's reduction.
  const bool input_first = mesh_->size(produce_) > 1;
  if (input_first) first_half();
  reduced_weight = weight_gradient(whole, pending_input.wait());
  if (!input_first) first_half();
  const Tensor result = reduced_input.wait();
  const Tensor part = reduced_weight.wait();
  if (part.defined()) weight_->accumulate(part);
  return result;
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& /*weight*/,
                        const c10::optional<Tensor>& bias, const Linear* layer) {
    remember(context, *layer);
    context->save_for_backward({input});
    return layer->run(input, bias.value_or(Tensor()));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Linear& layer = remembered<Linear>(context);
    const Tensor gradient = gradients[0].contiguous();
    Tensor bias;
    if (layer.bias_) {
      bias = tensor::column_sums(gradient);
      layer.mesh_->compute("bias dB", static_cast<double>(gradient.numel()),
                           static_cast<std::int64_t>(gradient.nbytes()));
    }
    Tensor input = layer.backward(gradient, context->get_saved_variables()[0]);
    return {input, Tensor(), bias, Tensor()};
  }
};

Tensor Linear::forward(const Tensor& input, const Tensor& bias) const {
  FOURFOLD_CHECK_EQ(input.dim(), 2, spec_.name, ": the input is a matrix");
  FOURFOLD_CHECK_EQ(bias.defined(), bias_ != nullptr, spec_.name);
  // libtorch does not take an undefined tensor.
  const auto given = bias.defined() ? c10::optional<Tensor>(bias) : c10::nullopt;
  return LinearFunction::apply(input, weight_->value(), given, this);
}

}  // namespace fourfold::nn
