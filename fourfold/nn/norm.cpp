// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/norm.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;

Norm::Norm(const Mesh& mesh, const std::string& name, const Kind& kind, std::int64_t width,
           double epsilon, Activations activations, const Precision& precision, std::uint64_t seed)
    : Layer(mesh, name), kind_(kind), width_(width), epsilon_(epsilon) {
  if (width % mesh.size(Axis::kX) != 0) {
    throw ConfigError(concat(name, ": ", width, " columns cannot be split over x=",
                             mesh.size(Axis::kX), "; choose a size of x that divides it"));
  }
  mesh.join(Axis::kX);
  ParameterSpec spec{.name = name + ".weight",
                     .shape = {width},
                     .kept = Axis::kX,
                     .gathered = {Axis::kY, Axis::kZ},
                     .mean = 1};
  spec.summed = activations == Activations::kSharded ? spec.gathered : Axes(Axis::kZ);
  const Precision wide{precision.master, precision.master};
  vectors_.push_back(declare(spec, wide, seed));
  if (!kind.shift) return;
  spec.name = name + ".bias";
  spec.mean = 0;
  vectors_.push_back(declare(spec, wide, seed));
}

/// One call of the layer: what its nodes share, and what is in flight between them.
struct Norm::Call {
  Saved input;
  Saved scale;
  Tensor statistics;  ///< of whole rows
  Tensor upstream;
  tensor::Pending exchanged;
  tensor::Pending sums;

  Rows rows() const { return {input.get(), scale.get(), statistics}; }
};

Tensor Norm::new_statistics(const Tensor& input) const {
  const auto type = kernels::statistics_type(input.scalar_type());
  return at::empty({kind_.statistics, input.size(0)}, input.options().dtype(type));
}

void Norm::record(const char* what, const Tensor& rows, double flops, int passes) const {
  mesh_->compute(what, tensor::loop_over(rows, passes, flops));
}

namespace {

variable_list zeros_like(std::size_t count, const Tensor& scale) {
  variable_list zeros;
  while (zeros.size() < count) zeros.push_back(at::zeros_like(scale));
  return zeros;
}

/// The vectors among the inputs of a node, which come after the rows.
variable_list vectors_of(const variable_list& in) {
  return {in.begin() + 1, in.end()};
}

/// `first` and then the vectors.
variable_list with(const Tensor& first, const variable_list& vectors) {
  variable_list list = {first};
  list.insert(list.end(), vectors.begin(), vectors.end());
  return list;
}

}  // namespace

// --- rows that are whole on this rank: one node, whose kernels do everything in one call

Tensor Norm::forward_whole(Call& call, const variable_list& in) const {
  const LayerScope scope(name());
  const Tensor& input = in[0];
  Tensor out = at::empty_like(input);
  call.statistics = new_statistics(input);
  whole(input, vectors_of(in), call.statistics, out);
  record("norm", input, kind_.flops.whole, 2);
  return out;
}

variable_list Norm::backward_whole(const Call& call, const Tensor& upstream) const {
  const LayerScope scope(name());
  const Rows rows = call.rows();
  variable_list gradients = zeros_like(vectors_.size(), rows.scale);
  Tensor result = at::empty_like(rows.input);
  backward_whole(upstream, rows, gradients, result);
  record("norm dI", rows.input, kind_.flops.backward_whole, 3);
  return with(result, gradients);
}

// --- rows whose columns are split over x: two nodes, with communication between them

void Norm::start_forward(Call& call, const Tensor& input) const {
  const LayerScope scope(name());
  Tensor own = new_statistics(input);
  statistics(input, own);
  record("norm statistics", input, kind_.flops.statistics, 1);
  call.exchanged = exchange(own);
}

Tensor Norm::end_forward(Call& call, const variable_list& in) const {
  const LayerScope scope(name());
  const Tensor& input = call.input.get();
  const Tensor arrived = call.exchanged.wait();
  call.statistics = new_statistics(input);
  Tensor out = at::empty_like(input);
  apply(input, arrived, vectors_of(in), call.statistics, out);
  record("norm", input, kind_.flops.apply, 2);
  return out;
}

variable_list Norm::start_backward(Call& call, const Tensor& upstream) const {
  const LayerScope scope(name());
  const Rows rows = call.rows();
  call.upstream = upstream;
  variable_list gradients = zeros_like(vectors_.size(), rows.scale);
  Tensor sums = at::empty_like(rows.statistics);
  backward_sums(upstream, rows, sums, gradients);
  record("norm sums", rows.input, kind_.flops.backward_sums, 2);
  call.sums = tensor::all_reduce(mesh_->comm(Axis::kX), sums);
  return with(placeholder(upstream.options()), gradients);
}

Tensor Norm::end_backward(Call& call) const {
  const LayerScope scope(name());
  const Rows rows = call.rows();
  Tensor result = at::empty_like(rows.input);
  backward_apply(std::exchange(call.upstream, Tensor()), rows, call.sums.wait(), result);
  record("norm dI", rows.input, kind_.flops.backward_apply, 3);
  return result;
}

Flow<Tensor> Norm::flow(Tensor input, const Pass& pass) const {
  FOURFOLD_CHECK_EQ(input.size(1) * mesh_->size(Axis::kX), width_, name());
  FOURFOLD_CHECK(input.is_contiguous());
  variable_list vectors;
  for (const ParameterPtr& parameter : vectors_) vectors.push_back(pass.vector(parameter));
  const auto call = std::make_shared<Call>();
  call->input = Saved(input);
  call->scale = Saved(vectors.front());
  if (mesh_->size(Axis::kX) == 1) {
    co_return node(
        name(), with(input, vectors),
        [&](const variable_list& in) -> variable_list { return {forward_whole(*call, in)}; },
        [this, call](const variable_list& gradients) {
          return backward_whole(*call, gradients[0].contiguous());
        })[0];
  }
  const variable_list passed = node(
      name(), {input},
      [&](const variable_list& in) -> variable_list {
        start_forward(*call, in[0]);
        return {placeholder(input.options())};
      },
      [this, call](const variable_list&) -> variable_list { return {end_backward(*call)}; });
  co_await Turn{};

  co_return node(
      name(), with(passed[0], vectors),
      [&](const variable_list& in) -> variable_list { return {end_forward(*call, in)}; },
      [this, call](const variable_list& gradients) {
        return start_backward(*call, gradients[0].contiguous());
      })[0];
}

}  // namespace fourfold::nn
