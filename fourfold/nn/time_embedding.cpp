// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/time_embedding.hpp"

#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

namespace {

GatheredLinearSpec linear_of(const TimeEmbeddingSpec& spec, bool first) {
  return {.name = spec.name + (first ? ".0" : ".2"),
          .in = first ? spec.channels : spec.width,
          .out = spec.width,
          .output = GatheredLinearSpec::Output::kEach,
          .silu = true,
          .input_gradient = !first,
          .deviation = first ? spec.deviation_in : spec.deviation_out};
}

/// Throws ConfigError where there is a misfit, before the layers are made.
const TimeEmbeddingSpec& fitting(const Mesh& mesh, const TimeEmbeddingSpec& spec) {
  const std::string reason =
      TimeEmbedding::misfit(spec, {.x = mesh.size(grid::Axis::kX), .y = mesh.size(grid::Axis::kY)});
  if (!reason.empty()) throw ConfigError(reason);
  return spec;
}

}  // namespace

std::string TimeEmbedding::misfit(const TimeEmbeddingSpec& spec, const grid::Sizes& sizes) {
  if (spec.channels < 2 || spec.channels % 2 != 0) {
    return concat(spec.name, ": ", spec.channels,
                  " channels cannot be divided into cosines and sines; choose an even number");
  }
  return GatheredLinear::misfit(linear_of(spec, true), sizes);
}

TimeEmbedding::TimeEmbedding(const Mesh& mesh, const TimeEmbeddingSpec& spec,
                             const Precision& precision, std::uint64_t seed)
    : Layer(mesh, spec.name),
      spec_(fitting(mesh, spec)),
      first_(mesh, linear_of(spec, true), precision, seed),
      second_(mesh, linear_of(spec, false), precision, seed) {
  consists_of(first_);
  consists_of(second_);
}

/// In double, since the number of a step is large beside the smallest angles, and rounded once.
Tensor TimeEmbedding::sinusoids(const Tensor& times) const {
  const LayerScope scope(name());
  const std::int64_t half = spec_.channels / 2;
  const Tensor numbers = at::arange(half, at::TensorOptions(at::kDouble).device(times.device()));
  const Tensor frequencies = (numbers * (-std::log(10000.0) / static_cast<double>(half))).exp();
  const Tensor angles = times.to(at::kDouble).unsqueeze(1) * frequencies;
  const Tensor result =
      at::cat({angles.cos(), angles.sin()}, 1).to(first_.weight()->precision().compute);
  mesh_->compute("sinusoids", tensor::loop_over(result, 1, 20));
  return result;
}

Flow<Tensor> TimeEmbedding::flow(Tensor times, const Pass& pass) const {
  FOURFOLD_CHECK_EQ(times.dim(), 1, name(), ": a number for each sample");
  const Tensor hidden = co_await first_.flow(sinusoids(times.detach()), pass);
  co_return co_await second_.flow(hidden, pass);
}

}  // namespace fourfold::nn
