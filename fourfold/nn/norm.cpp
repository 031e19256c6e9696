// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/norm.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/norm.hpp"
#include "fourfold/nn/node.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;

LayerNorm::LayerNorm(const Mesh& mesh, const std::string& name, std::int64_t width,
                     Activations activations, const Precision& precision, std::uint64_t seed,
                     double epsilon)
    : Norm(mesh, name), width_(width), epsilon_(epsilon) {
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
  scale_ = declare(spec, wide, seed);
  spec.name = name + ".bias";
  spec.mean = 0;
  shift_ = declare(spec, wide, seed);
}

// --- rows that are whole on this rank

namespace {

/// The kernels do everything in one call.
class WholeNorm : public torch::autograd::Function<WholeNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& scale,
                        const Tensor& shift, double epsilon, const Mesh* mesh) {
    remember(context, *mesh);
    keep(context, LayerScope::current());
    const auto type = kernels::statistics_type(input.scalar_type());
    Tensor out = at::empty_like(input);
    Tensor stats = at::empty({2, input.size(0)}, input.options().dtype(type));
    kernels::norm_whole(input, scale, shift, epsilon, stats, out);
    mesh->compute("norm", 4.0 * static_cast<double>(input.numel()),
                  2 * static_cast<std::int64_t>(input.nbytes()));
    context->save_for_backward({input, stats, scale});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Mesh& mesh = remembered<Mesh>(context);
    const LayerScope scope(kept<std::string_view>(context));
    const auto saved = context->get_saved_variables();
    const Tensor& input = saved[0];
    const Tensor& scale = saved[2];
    Tensor dscale = at::zeros_like(scale);
    Tensor dshift = at::zeros_like(scale);
    Tensor result = at::empty_like(input);
    kernels::norm_backward_whole(gradients[0].contiguous(), input, saved[1], scale, dscale, dshift,
                                 result);
    mesh.compute("norm dI", 16.0 * static_cast<double>(input.numel()),
                 3 * static_cast<std::int64_t>(input.nbytes()));
    return {result, dscale, dshift, Tensor(), Tensor()};
  }
};

}  // namespace

// --- rows whose columns are split over x

/// One call of the layer: what its two nodes share.
struct LayerNorm::Call {
  Tensor input;
  Tensor scale;
  Tensor stats;  ///< [mean, 1/deviation] of the whole rows
  Tensor gradient;
  tensor::Pending statistics;
  tensor::Pending sums;
};

/// Starts to gather the mean and squared distances of this rank's columns.
tensor::Pending LayerNorm::own_statistics(const Tensor& input) const {
  const auto type = kernels::statistics_type(input.scalar_type());
  Tensor own = at::empty({2, input.size(0)}, input.options().dtype(type));
  kernels::norm_statistics(input, own);
  const LayerScope scope(scale_->layer());
  mesh_->compute("norm statistics", 3.0 * static_cast<double>(input.numel()),
                 static_cast<std::int64_t>(input.nbytes()));
  return tensor::all_gather(mesh_->comm(Axis::kX), own);
}

/// Merges the statistics of all ranks. Merging adds the squared distances of the means, and never
/// subtracts large squares.
Tensor LayerNorm::merged(const Tensor& statistics, const Tensor& input) const {
  const std::int64_t rows = input.size(0);
  const Tensor all = statistics.view({mesh_->size(Axis::kX), 2, rows});
  const Tensor means = all.select(1, 0);
  const Tensor mean = means.mean(0);
  Tensor squares = all.select(1, 1).sum(0);
  squares.add_(at::sub(means, mean).square_().sum(0), static_cast<double>(input.size(1)));
  Tensor stats = at::empty({2, rows}, statistics.options());
  stats[0].copy_(mean);
  stats[1].copy_(squares).div_(static_cast<double>(width_)).add_(epsilon_).rsqrt_();
  return stats;
}

variable_list LayerNorm::start_backward(Call& call, const Tensor& gradient) const {
  FOURFOLD_CHECK(call.input.defined(), "a second backward pass through a norm");
  call.gradient = gradient;
  const LayerScope scope(scale_->layer());
  Tensor dscale = at::zeros_like(call.scale);
  Tensor dshift = at::zeros_like(call.scale);
  Tensor sums = at::empty_like(call.stats);
  kernels::norm_backward_sums(gradient, call.input, call.stats[0], call.stats[1], call.scale, sums,
                              dscale, dshift);
  mesh_->compute("norm sums", 9.0 * static_cast<double>(call.input.numel()),
                 2 * static_cast<std::int64_t>(call.input.nbytes()));
  call.sums = tensor::all_reduce(mesh_->comm(Axis::kX), sums);
  return {placeholder(gradient.options()), dscale, dshift};
}

Tensor LayerNorm::end_backward(Call& call) const {
  const LayerScope scope(scale_->layer());
  const Tensor input = std::exchange(call.input, Tensor());
  const Tensor gradient = std::exchange(call.gradient, Tensor());
  const Tensor stats = std::exchange(call.stats, Tensor());
  Tensor result = at::empty_like(input);
  kernels::norm_backward_apply(gradient, input, stats[0], stats[1], call.scale, call.sums.wait(),
                               width_, result);
  mesh_->compute("norm dI", 7.0 * static_cast<double>(input.numel()),
                 3 * static_cast<std::int64_t>(input.nbytes()));
  return result;
}

Flow<Tensor> LayerNorm::flow(Tensor input, const Pass& pass) const {
  const Tensor scale = pass.vector(scale_);
  const Tensor shift = pass.vector(shift_);
  FOURFOLD_CHECK_EQ(input.size(1) * mesh_->size(Axis::kX), width_);
  FOURFOLD_CHECK(input.is_contiguous());
  if (mesh_->size(Axis::kX) == 1) {
    const LayerScope scope(scale_->layer());
    co_return WholeNorm::apply(input, scale, shift, epsilon_, mesh_);
  }
  const auto call = std::make_shared<Call>();
  call->input = input.detach();
  call->scale = scale.detach();
  const variable_list passed = node(
      {input},
      [&](const variable_list&) -> variable_list {
        call->statistics = own_statistics(call->input);
        return {placeholder(input.options())};
      },
      [this, call](const variable_list&) -> variable_list { return {end_backward(*call)}; });
  co_await Turn{};

  co_return node(
      {passed[0], scale, shift},
      [&](const variable_list& in) -> variable_list {
        const LayerScope scope(scale_->layer());
        const Tensor& rows = call->input;
        call->stats = merged(call->statistics.wait(), rows);
        Tensor out = at::empty_like(rows);
        kernels::norm_apply(rows, call->stats[0], call->stats[1], in[1], in[2], out);
        mesh_->compute("norm", 4.0 * static_cast<double>(rows.numel()),
                       2 * static_cast<std::int64_t>(rows.nbytes()));
        return {out};
      },
      [this, call](const variable_list& gradients) {
        return start_backward(*call, gradients[0].contiguous());
      })[0];
}

}  // namespace fourfold::nn
