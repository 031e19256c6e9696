// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/entry_conv.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/mixed_sums.hpp"
#include "fourfold/nn/columns.hpp"
#include "fourfold/nn/conv_work.hpp"
#include "fourfold/nn/rows.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axis;

std::string EntryConv::misfit(const EntryConvSpec& spec, const grid::Sizes& sizes) {
  const bool sharded = spec.activations == Activations::kSharded;
  return cannot_split(spec.name, "output channels", spec.out,
                      std::int64_t{sizes.x} * (sharded ? sizes.y : 1), sharded ? "x times y" : "x");
}

EntryConv::EntryConv(const Mesh& mesh, const EntryConvSpec& spec, const Precision& precision,
                     std::uint64_t seed)
    : Layer(mesh, spec.name), spec_(spec) {
  const std::string reason = misfit(spec, {.x = mesh.size(Axis::kX), .y = mesh.size(Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
  ParameterSpec weight{.name = spec.name + ".weight",
                       .shape = {spec.out, spec.shape.taps(), spec.in},
                       .kept = {Axis::kX, Axis::kY},
                       .gathered = Axis::kZ,
                       .summed = Axis::kZ,
                       .deviation = spec.deviation};
  if (spec.activations == Activations::kReplicated) {
    weight.kept = Axis::kX;
    weight.gathered = {Axis::kY, Axis::kZ};
  }
  ParameterSpec bias = weight;
  bias.name = spec.name + ".bias";
  bias.shape = {spec.out};
  bias.deviation = 0;
  weight_ = declare(weight, precision, seed);
  bias_ = declare(bias, Precision{precision.master, precision.master}, seed);
}

double EntryConv::flops(const Batch& batch) const {
  return 2.0 * static_cast<double>(spec_.in * spec_.shape.taps() * spec_.out) *
         static_cast<double>(batch.samples * spec_.shape.out_pixels());
}

Tensor EntryConv::convolve(const Tensor& images, const Tensor& weight, const Tensor& bias) const {
  const LayerScope scope(name());
  Tensor out = conv(*mesh_, images, weight, spec_.shape);
  kernels::add_to_rows_of(out, bias);
  mesh_->compute("bias", tensor::loop_over(out, 2, 1));
  return out;
}

Tensor EntryConv::forward(const Tensor& images, const Pass& pass) const {
  FOURFOLD_CHECK(images.dim() == 2 && images.size(1) == spec_.in && !images.requires_grad(), name(),
                 ": images are rows of ", spec_.in, " channels, and data");
  const Tensor bias = pass.vector(bias_);
  tensor::InFlight& in_flight = pass.in_flight();
  const std::shared_ptr<Parameter::Use> use = weight_->use(in_flight);
  return node(
      name(), {weight_->leaf(), bias},
      [&](const variable_list&) -> variable_list {
        return {convolve(images, weight_->gather(in_flight), bias.detach())};
      },
      [this, use, input = Saved(images)](const variable_list& gradients) -> variable_list {
        const LayerScope scope(name());
        const Tensor gradient = gradients[0].contiguous();
        const Tensor sums = kernels::column_sums(gradient);
        mesh_->compute("bias dB", tensor::loop_over(gradient, 1, 1));
        conv_weight_gradient(*mesh_, *use, gradient, input.get(), spec_.shape);
        use->in_flight().sums_issued();
        return {Tensor(), sums};
      })[0];
}

}  // namespace fourfold::nn
