// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/rms_norm.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/elements.hpp"
#include "fourfold/kernels/norm.hpp"
#include "fourfold/nn/node.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;

RmsNorm::RmsNorm(const Mesh& mesh, const std::string& name, std::int64_t width,
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
  scale_ = declare(spec, {precision.master, precision.master}, seed);
}

// --- rows that are whole on this rank

namespace {

/// The kernels do everything in one call.
class WholeRmsNorm : public torch::autograd::Function<WholeRmsNorm> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& scale,
                        double epsilon, const Mesh* mesh) {
    remember(context, *mesh);
    keep(context, LayerScope::current());
    const auto type = kernels::statistics_type(input.scalar_type());
    Tensor out = at::empty_like(input);
    Tensor rstd = at::empty({input.size(0)}, input.options().dtype(type));
    kernels::rms_whole(input, scale, epsilon, rstd, out);
    mesh->compute("norm", 4.0 * static_cast<double>(input.numel()),
                  2 * static_cast<std::int64_t>(input.nbytes()));
    context->save_for_backward({input, rstd, scale});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Mesh& mesh = remembered<Mesh>(context);
    const LayerScope scope(kept<std::string_view>(context));
    const auto saved = context->get_saved_variables();
    const Tensor& input = saved[0];
    const Tensor& scale = saved[2];
    Tensor dscale = at::zeros_like(scale);
    Tensor result = at::empty_like(input);
    kernels::rms_backward_whole(gradients[0].contiguous(), input, saved[1], scale, dscale, result);
    mesh.compute("norm dI", 10.0 * static_cast<double>(input.numel()),
                 3 * static_cast<std::int64_t>(input.nbytes()));
    return {result, dscale, Tensor(), Tensor()};
  }
};

}  // namespace

// --- rows whose columns are split over x

/// One call of the layer: what its two nodes share.
struct RmsNorm::Call {
  Tensor input;
  Tensor scale;
  Tensor rstd;  ///< of the whole rows
  Tensor gradient;
  tensor::Pending squares;
  tensor::Pending sums;
};

/// Starts to sum the squares of this rank's columns over all ranks along x.
tensor::Pending RmsNorm::own_squares(const Tensor& input) const {
  const LayerScope scope(name());
  const auto type = kernels::statistics_type(input.scalar_type());
  Tensor own = at::empty({input.size(0)}, input.options().dtype(type));
  kernels::rms_statistics(input, own);
  mesh_->compute("norm statistics", 2.0 * static_cast<double>(input.numel()),
                 static_cast<std::int64_t>(input.nbytes()));
  return tensor::all_reduce(mesh_->comm(Axis::kX), own);
}

Tensor RmsNorm::apply(Call& call, const Tensor& scale) const {
  const LayerScope scope(name());
  const Tensor& rows = call.input;
  const Tensor squares = call.squares.wait();
  call.rstd = at::empty_like(squares);
  Tensor out = at::empty_like(rows);
  kernels::rms_apply(rows, squares, width_, epsilon_, scale, call.rstd, out);
  mesh_->compute("norm", 2.0 * static_cast<double>(rows.numel()),
                 2 * static_cast<std::int64_t>(rows.nbytes()));
  return out;
}

variable_list RmsNorm::start_backward(Call& call, const Tensor& gradient) const {
  FOURFOLD_CHECK(call.input.defined(), "a second backward pass through a norm");
  call.gradient = gradient;
  const LayerScope scope(name());
  Tensor dscale = at::zeros_like(call.scale);
  Tensor sums = at::empty_like(call.rstd);
  kernels::rms_backward_sums(gradient, call.input, call.rstd, call.scale, sums, dscale);
  mesh_->compute("norm sums", 6.0 * static_cast<double>(call.input.numel()),
                 2 * static_cast<std::int64_t>(call.input.nbytes()));
  call.sums = tensor::all_reduce(mesh_->comm(Axis::kX), sums);
  return {placeholder(gradient.options()), dscale};
}

Tensor RmsNorm::end_backward(Call& call) const {
  const LayerScope scope(name());
  const Tensor input = std::exchange(call.input, Tensor());
  const Tensor gradient = std::exchange(call.gradient, Tensor());
  Tensor result = at::empty_like(input);
  kernels::rms_backward_apply(gradient, input, std::exchange(call.rstd, Tensor()), call.scale,
                              call.sums.wait(), width_, result);
  mesh_->compute("norm dI", 5.0 * static_cast<double>(input.numel()),
                 3 * static_cast<std::int64_t>(input.nbytes()));
  return result;
}

Flow<Tensor> RmsNorm::flow(Tensor input, const Pass& pass) const {
  const Tensor scale = pass.vector(scale_);
  FOURFOLD_CHECK_EQ(input.size(1) * mesh_->size(Axis::kX), width_, name());
  FOURFOLD_CHECK(input.is_contiguous());
  if (mesh_->size(Axis::kX) == 1) {
    const LayerScope scope(name());
    co_return WholeRmsNorm::apply(input, scale, epsilon_, mesh_);
  }
  const auto call = std::make_shared<Call>();
  call->input = input.detach();
  call->scale = scale.detach();
  const variable_list passed = node(
      {input},
      [&](const variable_list&) -> variable_list {
        call->squares = own_squares(call->input);
        return {placeholder(input.options())};
      },
      [this, call](const variable_list&) -> variable_list { return {end_backward(*call)}; });
  co_await Turn{};

  co_return node(
      {passed[0], scale},
      [&](const variable_list& in) -> variable_list { return {apply(*call, in[1])}; },
      [this, call](const variable_list& gradients) {
        return start_backward(*call, gradients[0].contiguous());
      })[0];
}

}  // namespace fourfold::nn
