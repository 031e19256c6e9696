// SPDX-License-Identifier: Apache-2.0
#include "fourfold/optim/adamw.hpp"

#include <algorithm>

#include <ATen/ops/isfinite.h>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::optim {

using grid::Axis;
using tensor::MemoryClass;
using tensor::MemoryScope;
using tensor::Purpose;

namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Zeros of that many elements, counted as of that class.
Tensor zeros(std::int64_t count, at::ScalarType type, const Mesh& mesh, MemoryClass kind) {
  const MemoryScope scope(kind);
  return at::zeros({count}, at::TensorOptions(type).device(mesh.device()));
}

}  // namespace

FlatGroup::FlatGroup(const Mesh& mesh, nn::Parameters parameters, double decay)
    : mesh_(&mesh), parameters_(std::move(parameters)), decay_(decay) {
  const nn::Precision precision = parameters_.at(0)->precision();
  std::int64_t count = 0;
  for (const nn::ParameterPtr& p : parameters_) count += round_up(p->size(), kAlignment);
  count = round_up(count, kAlignment * mesh.size(Axis::kData));

  values_ = zeros(count, precision.compute, mesh, MemoryClass::kParameters);
  const bool same = precision.compute == precision.master;
  own_values_ =
      same ? own(values_)
           : zeros(count / mesh.size(Axis::kData), precision.master, mesh, MemoryClass::kOptimizer);
  const std::int64_t own_begin = mesh.index(Axis::kData) * own_values_.numel();
  std::int64_t begin = 0;
  for (const nn::ParameterPtr& p : parameters_) {
    if (!same) {
      // The part of the parameter that lies in this rank's part.
      const std::int64_t from = std::max(begin, own_begin);
      const std::int64_t to = std::min(begin + p->size(), own_begin + own_values_.numel());
      if (from < to) {
        own_values_.narrow(0, from - own_begin, to - from)
            .copy_(p->master().flatten().narrow(0, from - begin, to - from));
      }
      p->release_master();
    }
    p->move_to(values_.narrow(0, begin, p->size()).view(p->value().sizes()));
    begin += round_up(p->size(), kAlignment);
  }

  gradients_ = zeros(count, precision.master, mesh, MemoryClass::kGradients);
  begin = 0;
  for (const nn::ParameterPtr& p : parameters_) {
    begins_.push_back(begin);
    p->move_gradient_to(gradients_.narrow(0, begin, p->size()).view(p->value().sizes()));
    begin += round_up(p->size(), kAlignment);
  }
  mean_ = zeros(own_values_.numel(), precision.master, mesh, MemoryClass::kOptimizer);
  square_ = zeros(own_values_.numel(), precision.master, mesh, MemoryClass::kOptimizer);
}

Tensor FlatGroup::own(const Tensor& all) const {
  const std::int64_t part = all.numel() / mesh_->size(Axis::kData);
  return all.narrow(0, mesh_->index(Axis::kData) * part, part);
}

grid::Range FlatGroup::own_range() const {
  const std::int64_t part = own_values_.numel();
  const std::int64_t begin = mesh_->index(Axis::kData) * part;
  return {begin, begin + part};
}

comm::Work FlatGroup::reduce_gradients() {
  for (const nn::ParameterPtr& p : parameters_) {
    FOURFOLD_CHECK(p->gradient().defined(), p->name(), " has no gradient");
  }
  const comm::Communicator& comm = mesh_->comm(Axis::kData, Purpose::kGradients);
  if (comm.size() == 1) return {};
  return comm.reduce_scatter(tensor::view(gradients_), tensor::view(own(gradients_)));
}

double FlatGroup::sum_of_squares() const {
  const double sum = optim::sum_of_squares(own(gradients_));
  mesh_->compute("norm of gradients", 2.0 * static_cast<double>(own_values_.numel()),
                 static_cast<std::int64_t>(mean_.nbytes()));
  return sum;
}

void FlatGroup::update(AdamStep step) {
  step.decay = decay_;
  const bool same = values_.scalar_type() == own_values_.scalar_type();
  adamw(own_values_, own(gradients_), mean_, square_, same ? own_values_ : own(values_), step);
  // Gradient, value and moments are read, the latter three written.
  mesh_->compute("adamw", 15.0 * static_cast<double>(mean_.numel()),
                 7 * static_cast<std::int64_t>(mean_.nbytes()));
}

comm::Work FlatGroup::gather_values() {
  const comm::Communicator& comm = mesh_->comm(Axis::kData, Purpose::kGradients);
  if (comm.size() == 1) return {};
  return comm.all_gather(tensor::view(own(values_)), tensor::view(values_));
}

AdamW::AdamW(const Mesh& mesh, const nn::Parameters& parameters, const AdamWSpec& spec)
    : spec_(spec) {
  nn::Parameters matrices;
  nn::Parameters vectors;
  for (const nn::ParameterPtr& p : parameters) {
    (p->spec().shape.size() > 1 ? matrices : vectors).push_back(p);
  }
  if (!matrices.empty()) groups_.emplace_back(mesh, std::move(matrices), spec.decay);
  if (!vectors.empty()) groups_.emplace_back(mesh, std::move(vectors), 0.0);
}

void AdamW::begin_step() {
  for (const FlatGroup& group : groups_) {
    for (const nn::ParameterPtr& p : group.parameters()) p->forget_gradient();
  }
}

double AdamW::reduce_gradients() {
  std::vector<comm::Work> works;
  for (FlatGroup& group : groups_) works.push_back(group.reduce_gradients());
  double squares = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    works[i].wait();
    squares += groups_[i].sum_of_squares();
  }
  return squares;
}

AdamW::Health AdamW::gradient_health(const nn::Parameter& parameter) const {
  const Tensor gradient = parameter.gradient().flatten();
  const auto finite = [&](std::int64_t from, std::int64_t to) {
    return from >= to || gradient.narrow(0, from, to - from).isfinite().all().item<bool>();
  };
  if (finite(0, gradient.numel())) return Health::kFinite;
  for (const FlatGroup& group : groups_) {
    for (std::size_t i = 0; i < group.parameters().size(); ++i) {
      if (group.parameters()[i].get() != &parameter) continue;
      const std::int64_t begin = group.begin_of(i);
      const grid::Range all{begin, begin + gradient.numel()};
      const grid::Range own = grid::intersect(all, group.own_range());
      const bool others_finite =
          own.empty() ? false
                      : finite(0, own.begin - begin) && finite(own.end - begin, gradient.numel());
      return others_finite ? Health::kBadInOwnPart : Health::kBad;
    }
  }
  throw InvariantError(parameter.name() + " is not one of the optimizer's");
}

void AdamW::update(std::int64_t step, double rate, double gradient_scale) {
  const AdamStep numbers{.rate = rate,
                         .beta1 = spec_.beta1,
                         .beta2 = spec_.beta2,
                         .epsilon = spec_.epsilon,
                         .gradient_scale = gradient_scale,
                         .step = step};
  std::vector<comm::Work> works;
  for (FlatGroup& group : groups_) {
    group.update(numbers);
    works.push_back(group.gather_values());
  }
  for (comm::Work& work : works) work.wait();
}

double clip_scale(double norm, double largest) {
  // The small number is that of the usual implementations, with which results are compared.
  return largest > 0 ? std::min(1.0, largest / (norm + 1e-6)) : 1.0;
}

}  // namespace fourfold::optim
