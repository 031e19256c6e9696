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
  std::int64_t count = 0;
  for (const nn::ParameterPtr& p : parameters_) {
    begins_.push_back(count);
    count += round_up(p->size(), kAlignment);
  }
  count = round_up(count, kAlignment * mesh.size(Axis::kData));
  const nn::Precision precision = parameters_.at(0)->precision();
  values_ = zeros(count, precision.compute, mesh, MemoryClass::kParameters);
  own_values_ =
      precision.compute == precision.master
          ? own(values_)
          : zeros(count / mesh.size(Axis::kData), precision.master, mesh, MemoryClass::kOptimizer);
  place_values();
  gradients_ = zeros(count, precision.master, mesh, MemoryClass::kGradients);
  place_gradients();
  mean_ = zeros(own_values_.numel(), precision.master, mesh, MemoryClass::kOptimizer);
  square_ = zeros(own_values_.numel(), precision.master, mesh, MemoryClass::kOptimizer);
}

FlatGroup::~FlatGroup() {
  for (const nn::ParameterPtr& p : parameters_) p->on_complete({});
}

void FlatGroup::place_values() {
  const bool same = values_.scalar_type() == own_values_.scalar_type();
  const grid::Range mine = own_range();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    nn::Parameter& p = *parameters_[i];
    const std::int64_t begin = begins_[i];
    if (!same) {
      // The part of the parameter that lies in this rank's part.
      const grid::Range here = grid::intersect({begin, begin + p.size()}, mine);
      if (!here.empty()) {
        own_values_.narrow(0, here.begin - mine.begin, here.size())
            .copy_(p.master().flatten().narrow(0, here.begin - begin, here.size()));
      }
      p.release_master();
    }
    p.move_to(values_.narrow(0, begin, p.size()).view(p.value().sizes()));
  }
}

void FlatGroup::place_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    nn::Parameter& p = *parameters_[i];
    p.move_gradient_to(gradients_.narrow(0, begins_[i], p.size()).view(p.value().sizes()));
    p.on_complete([this] {
      if (--incomplete_ == 0 && mesh_->overlap().data) reduce_gradients();
    });
  }
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

void FlatGroup::begin_step(std::int64_t passes) {
  for (const nn::ParameterPtr& p : parameters_) p->forget_gradient();
  incomplete_ = passes * static_cast<std::int64_t>(parameters_.size());
  reducing_ = false;
  // The first step, or one after a validation, treats its values as others do theirs.
  if (!arrival_ || arrival_->waited) expect_values({});
}

void FlatGroup::expect_values(comm::Work work) {
  if (!mesh_->overlap().data || mesh_->size(Axis::kData) == 1) return;
  arrival_ = std::make_shared<nn::Arrival>();
  arrival_->work = std::move(work);
  for (const nn::ParameterPtr& p : parameters_) p->expect_values(arrival_);
}

void FlatGroup::reduce_gradients() {
  if (std::exchange(reducing_, true)) return;
  const comm::Communicator& comm = mesh_->comm(Axis::kData, Purpose::kGradients);
  if (comm.size() == 1) return;
  reduction_ = comm.reduce_scatter(
      tensor::view(gradients_), tensor::view(own(gradients_)), comm::ReduceOp::kSum,
      mesh_->overlap().data ? comm::Priority::kBackground : comm::Priority::kUrgent);
}

double FlatGroup::sum_of_squares() {
  reduction_.wait();
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

void FlatGroup::gather_values() {
  const comm::Communicator& comm = mesh_->comm(Axis::kData, Purpose::kWeights);
  if (comm.size() == 1) return;
  const bool later = mesh_->overlap().data;
  comm::Work work = comm.all_gather(tensor::view(own(values_)), tensor::view(values_),
                                    later ? comm::Priority::kBackground : comm::Priority::kUrgent);
  if (later) {
    expect_values(std::move(work));
  } else {
    work.wait();
  }
}

namespace {

/// What travels at once.
struct Segment {
  std::size_t first_use = 0;  // of its first parameter, among all
  nn::Parameters parameters;
  double decay = 0;
};

/// Collects parameters until they are as many as travel at once.
class Packer {
 public:
  Packer(const Mesh& mesh, double decay, std::vector<Segment>& segments)
      : mesh_(&mesh), decay_(decay), segments_(&segments) {}

  void add(const nn::ParameterPtr& parameter, std::size_t use) {
    const std::int64_t bytes =
        parameter->size() *
        static_cast<std::int64_t>(c10::elementSize(parameter->precision().master));
    if (bytes_ + bytes > mesh_->overlap().segment) close();
    if (parameters_.empty()) first_use_ = use;
    parameters_.push_back(parameter);
    bytes_ += bytes;
  }

  void close() {
    if (!parameters_.empty()) {
      segments_->push_back({first_use_, std::exchange(parameters_, {}), decay_});
    }
    bytes_ = 0;
  }

 private:
  const Mesh* mesh_;
  double decay_;
  std::vector<Segment>* segments_;
  nn::Parameters parameters_;
  std::size_t first_use_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

AdamW::AdamW(const Mesh& mesh, const std::vector<nn::Parameters>& stages, const AdamWSpec& spec)
    : mesh_(&mesh), spec_(spec) {
  std::vector<Segment> segments;
  // They may differ in type and differ in decay.
  Packer matrices(mesh, spec.decay, segments);
  Packer vectors(mesh, 0.0, segments);
  std::size_t use = 0;
  for (const nn::Parameters& stage : stages) {
    for (const nn::ParameterPtr& p : stage) {
      (p->spec().shape.size() > 1 ? matrices : vectors).add(p, use++);
    }
    if (&stage != &stages.front()) continue;
    matrices.close();
    vectors.close();
  }
  matrices.close();
  vectors.close();
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.first_use < b.first_use; });
  for (Segment& segment : segments) {
    groups_.emplace_back(mesh, std::move(segment.parameters), segment.decay);
  }
}

void AdamW::begin_step(std::int64_t passes) {
  for (FlatGroup& group : groups_) group.begin_step(passes);
}

double AdamW::reduce_gradients() {
  for (const FlatGroup& group : groups_) {
    for (const nn::ParameterPtr& p : group.parameters()) {
      FOURFOLD_CHECK(p->gradient().defined(), p->name(), " has no gradient");
    }
  }
  // In the order in which the backward pass ends them; those that have not begun do so here.
  double squares = 0;
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) {
    group->reduce_gradients();
    squares += group->sum_of_squares();
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
  for (FlatGroup& group : groups_) {
    group.update(numbers);
    group.gather_values();
  }
}

double clip_scale(double norm, double largest) {
  // The small number is that of the usual implementations, with which results are compared.
  return largest > 0 ? std::min(1.0, largest / (norm + 1e-6)) : 1.0;
}

}  // namespace fourfold::optim
