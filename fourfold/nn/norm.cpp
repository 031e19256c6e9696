// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/norm.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/nn/function.hpp"
#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/norm_kernels.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;

LayerNorm::LayerNorm(const Mesh& mesh, const std::string& name, std::int64_t width,
                     Activations activations, const Precision& precision, std::uint64_t seed,
                     double epsilon)
    : mesh_(&mesh), width_(width), epsilon_(epsilon) {
  if (width % mesh.size(Axis::kX) != 0) {
    throw ConfigError(concat(name, ": ", width, " columns cannot be split over x=",
                             mesh.size(Axis::kX), "; choose a size of x that divides it"));
  }
  ParameterSpec spec{.name = name + ".weight",
                     .shape = {width},
                     .kept = Axis::kX,
                     .gathered = {Axis::kY, Axis::kZ},
                     .mean = 1};
  spec.summed = activations == Activations::kSharded ? spec.gathered : Axes(Axis::kZ);
  const Precision wide{precision.master, precision.master};
  scale_ = std::make_shared<Parameter>(mesh, spec, wide, seed);
  spec.name = name + ".bias";
  spec.mean = 0;
  shift_ = std::make_shared<Parameter>(mesh, spec, wide, seed);
}

/// [mean, 1/deviation] of the whole rows. Each rank has the mean and the squared distances of its
/// columns; merging them adds the squared distances of the means, and never subtracts large
/// squares.
Tensor LayerNorm::merged_statistics(const Tensor& input) const {
  const std::int64_t rows = input.size(0);
  const auto options = input.options().dtype(tensor::statistics_type(input.scalar_type()));
  Tensor own = at::empty({2, rows}, options);
  tensor::norm_statistics(input, own);
  mesh_->compute("norm statistics", 3.0 * static_cast<double>(input.numel()),
                 static_cast<std::int64_t>(input.nbytes()));
  const comm::Communicator& comm = mesh_->comm(Axis::kX);
  Tensor mean = own[0];
  Tensor squares = own[1];
  if (comm.size() > 1) {
    const Tensor all = tensor::all_gather(comm, own).wait().view({comm.size(), 2, rows});
    const Tensor means = all.select(1, 0);
    mean = means.mean(0);
    squares = all.select(1, 1).sum(0);
    squares.add_(at::sub(means, mean).square_().sum(0), static_cast<double>(input.size(1)));
  }
  Tensor stats = at::empty({2, rows}, options);
  stats[0].copy_(mean);
  stats[1].copy_(squares).div_(static_cast<double>(width_)).add_(epsilon_).rsqrt_();
  return stats;
}

class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& scale,
                        const Tensor& shift, const LayerNorm* layer) {
    remember(context, *layer);
    Tensor out = at::empty_like(input);
    Tensor stats;
    if (layer->mesh_->size(Axis::kX) == 1) {
      const auto type = tensor::statistics_type(input.scalar_type());
      stats = at::empty({2, input.size(0)}, input.options().dtype(type));
      tensor::norm_whole(input, scale, shift, layer->epsilon_, stats, out);
    } else {
      stats = layer->merged_statistics(input);
      tensor::norm_apply(input, stats[0], stats[1], scale, shift, out);
    }
    layer->mesh_->compute("norm", 4.0 * static_cast<double>(input.numel()),
                          2 * static_cast<std::int64_t>(input.nbytes()));
    context->save_for_backward({input, stats, scale});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const LayerNorm& layer = remembered<LayerNorm>(context);
    const auto saved = context->get_saved_variables();
    const Tensor& input = saved[0];
    const Tensor& stats = saved[1];
    const Tensor& scale = saved[2];
    const Tensor gradient = gradients[0].contiguous();
    Tensor dscale = at::zeros_like(scale);
    Tensor dshift = at::zeros_like(scale);
    Tensor result = at::empty_like(input);
    if (layer.mesh_->size(Axis::kX) == 1) {
      tensor::norm_backward_whole(gradient, input, stats, scale, dscale, dshift, result);
      layer.mesh_->compute("norm dI", 16.0 * static_cast<double>(input.numel()),
                           3 * static_cast<std::int64_t>(input.nbytes()));
      return {result, dscale, dshift, Tensor()};
    }
    Tensor sums = at::empty_like(stats);
    tensor::norm_backward_sums(gradient, input, stats[0], stats[1], scale, sums, dscale, dshift);
    const double elements = static_cast<double>(input.numel());
    const auto bytes = static_cast<std::int64_t>(input.nbytes());
    layer.mesh_->compute("norm sums", 9.0 * elements, 2 * bytes);
    sums = tensor::all_reduce(layer.mesh_->comm(Axis::kX), sums).wait();
    tensor::norm_backward_apply(gradient, input, stats[0], stats[1], scale, sums, layer.width_,
                                result);
    layer.mesh_->compute("norm dI", 7.0 * elements, 3 * bytes);
    return {result, dscale, dshift, Tensor()};
  }
};

Tensor LayerNorm::forward(const Tensor& input, const Tensor& scale, const Tensor& shift) const {
  FOURFOLD_CHECK_EQ(input.size(1) * mesh_->size(Axis::kX), width_);
  FOURFOLD_CHECK(input.is_contiguous());
  return LayerNormFunction::apply(input, scale, shift, this);
}

}  // namespace fourfold::nn
