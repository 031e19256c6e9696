// SPDX-License-Identifier: Apache-2.0
#include "fourfold/optim/flat_group.hpp"

#include <ATen/ops/isfinite.h>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::optim {

using tensor::MemoryClass;
using tensor::MemoryScope;
using tensor::Purpose;

namespace {

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

nn::Parameters checked(const Mesh& mesh, nn::Parameters parameters) {
  nn::check_parameters(mesh, parameters, "FlatGroup");
  return parameters;
}

/// Zeros of that many elements, counted in that memory class.
Tensor zeros(std::int64_t count, at::ScalarType type, const Mesh& mesh, MemoryClass kind) {
  const MemoryScope scope(kind);
  return at::zeros({count}, at::TensorOptions(type).device(mesh.device()));
}

}  // namespace

FlatGroup::FlatGroup(const Mesh& mesh, nn::Parameters parameters, double decay, Zero zero,
                     bool keeps_mean)
    : mesh_(&mesh),
      parameters_(checked(mesh, std::move(parameters))),
      decay_(decay),
      zero_(zero),
      axes_(parameters_.at(0)->spec().replicas),
      replicas_(mesh.size(axes_)) {
  for (const nn::ParameterPtr& p : parameters_) {
    FOURFOLD_CHECK(p->spec().replicas == axes_, p->name(), " has other replicas");
    begins_.push_back(count_);
    count_ += round_up(p->size(), kAlignment);
  }
  count_ = round_up(count_, kAlignment * replicas_);
  const nn::Precision precision = parameters_[0]->precision();
  values_ = zeros(count_, precision.compute, mesh, MemoryClass::kParameters);
  const std::int64_t own_count = own(values_).numel();
  own_values_ = precision.compute == precision.master
                    ? own(values_)
                    : zeros(own_count, precision.master, mesh, MemoryClass::kOptimizer);
  place_values();
  if (sums_passes()) {
    own_gradients_ = zeros(own_count, precision.master, mesh, MemoryClass::kGradients);
  } else {
    gradients_ = zeros(count_, precision.master, mesh, MemoryClass::kGradients);
    own_gradients_ = own(gradients_);
    place_gradients();
  }
  mean_ = zeros(own_count, precision.master, mesh, MemoryClass::kOptimizer);
  square_ = zeros(own_count, precision.master, mesh, MemoryClass::kOptimizer);
  if (keeps_mean) value_mean_ = zeros(own_count, precision.master, mesh, MemoryClass::kOptimizer);
  for (const nn::ParameterPtr& p : parameters_) p->collector().adopt(*this);
}

FlatGroup::~FlatGroup() {
  for (const nn::ParameterPtr& p : parameters_) p->collector().release();
}

const comm::Communicator& FlatGroup::comm(Purpose purpose) const {
  return mesh_->comm(axes_, purpose);
}

comm::Priority FlatGroup::priority() const {
  return mesh_->overlap().data ? comm::Priority::kBackground : comm::Priority::kUrgent;
}

/// Gives every parameter its final place for values: all values in the type of computation, and, if
/// the master type is another one, this rank's part in the master type.
void FlatGroup::place_values() {
  const bool same = values_.scalar_type() == own_values_.scalar_type();
  const grid::Range mine = own_range();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    nn::Parameter& p = *parameters_[i];
    const std::int64_t begin = begins_[i];
    const Tensor home = values_.narrow(0, begin, p.size()).view(p.shard_shape());
    const grid::Range here = grid::intersect({begin, begin + p.size()}, mine);
    if (same || here.empty()) {
      p.live_in(home, Tensor(), 0);
    } else {
      p.live_in(home, own_values_.narrow(0, here.begin - mine.begin, here.size()),
                here.begin - begin);
    }
  }
}

void FlatGroup::place_gradients() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    nn::Parameter& p = *parameters_[i];
    p.move_gradient_to(gradients_.narrow(0, begins_[i], p.size()).view(p.shard_shape()));
  }
}

Tensor FlatGroup::part(const Tensor& all) const {
  const grid::Range range = part_range();
  return all.narrow(0, range.begin, range.size());
}

grid::Range FlatGroup::part_range() const {
  const std::int64_t size = count_ / replicas_;
  const std::int64_t begin = mesh_->index(axes_) * size;
  return {begin, begin + size};
}

// --- gradients

void FlatGroup::begin_step(tensor::InFlight& in_flight, std::int64_t passes) {
  in_flight_ = &in_flight;
  reduction_.wait();  // left over from a step without an update
  for (const nn::ParameterPtr& p : parameters_) {
    if (sums_passes()) {
      p->drop_gradient();
    } else {
      p->forget_gradient();
    }
    p->collector().begin_step(passes);
  }
  if (sums_passes()) gradients_ = Tensor();
  incomplete_ = parameters_.size();
  has_sums_ = false;
  reducing_ = false;
  // In the first step, or after a validation, the values are treated as those that arrive after an
  // update.
  if (!arrival_ || arrival_->waited) expect_values({});
}

void FlatGroup::end_step() {
  in_flight_ = nullptr;
  for (const nn::ParameterPtr& p : parameters_) p->collector().end_step();
}

/// Allocates memory for the gradients of a pass. The gaps between them must be zero.
void FlatGroup::provide_memory(nn::Parameter&) {
  if (sums_passes()) {
    gradients_ = zeros(count_, own_gradients_.scalar_type(), *mesh_, MemoryClass::kGradients);
    const comm::LayerScope scope("");  // they are those of many layers
    mesh_->compute("zeros of gradients", tensor::loop_over(gradients_, 1));
  }
  place_gradients();
}

void FlatGroup::complete(nn::Parameter&, bool last) {
  const comm::LayerScope scope("");  // the layer that came last is only one of many
  if (in_flight_ == nullptr || (!last && !sums_passes())) return;
  if (--incomplete_ > 0) return;
  if (sums_passes()) return sum_pass();
  if (mesh_->overlap().data) reduce_gradients();
}

/// Sends the gradients of a pass to the ranks that keep them, and frees their memory.
void FlatGroup::sum_pass() {
  incomplete_ = parameters_.size();
  for (const nn::ParameterPtr& p : parameters_) p->drop_gradient();
  const Tensor all = std::exchange(gradients_, Tensor());
  const Tensor sums = part(all);
  auto work = std::make_shared<comm::Work>(
      comm(Purpose::kGradients)
          .reduce_scatter(tensor::view(all), tensor::view(sums), comm::ReduceOp::kSum, priority()));
  const auto finish = [this, all, sums, work] {
    work->wait();
    add_pass(sums);
  };
  if (!mesh_->overlap().data) return finish();
  in_flight_->sums().add(static_cast<std::int64_t>(all.nbytes()), finish);
}

void FlatGroup::add_pass(const Tensor& sums) {
  const comm::LayerScope scope("");
  if (std::exchange(has_sums_, true)) {
    tensor::add_to(*mesh_, "sum of passes", own_gradients_, sums);
  } else {
    tensor::copy(*mesh_, "copy of a pass", own_gradients_, sums);
  }
}

void FlatGroup::reduce_gradients() {
  if (sums_passes()) {
    in_flight_->sums().drain();
    FOURFOLD_CHECK(has_sums_ && incomplete_ == parameters_.size(), parameters_[0]->name(),
                   " or one that travels with it has no gradient");
    return;
  }
  for (const nn::ParameterPtr& p : parameters_) {
    FOURFOLD_CHECK(p->has_gradient(), p->name(), " has no gradient");
  }
  if (std::exchange(reducing_, true) || replicas_ == 1) return;
  const comm::Communicator& group = comm(Purpose::kGradients);
  reduction_ = zero_ == Zero::kNothing
                   ? group.all_reduce(tensor::view(gradients_), comm::ReduceOp::kSum, priority())
                   : group.reduce_scatter(tensor::view(gradients_), tensor::view(own_gradients_),
                                          comm::ReduceOp::kSum, priority());
}

void FlatGroup::add_squares_to(const Tensor& sum) {
  reduction_.wait();
  const Tensor counted = zero_ == Zero::kNothing ? part(own_gradients_) : own_gradients_;
  kernels::add_squares(counted, sum);
  mesh_->compute("norm of gradients", tensor::loop_over(counted, 1, 2));
}

Health FlatGroup::health(std::size_t index) const {
  const std::int64_t begin = begins_[index];
  const grid::Range all{begin, begin + parameters_[index]->size()};
  const grid::Range summed = own_range();
  const grid::Range own = grid::intersect(all, summed);
  const auto finite = [](const Tensor& elements) {
    return elements.numel() == 0 || elements.isfinite().all().item<bool>();
  };
  if (!sums_passes()) {
    const std::int64_t before = own.empty() ? all.size() : own.begin - all.begin;
    const std::int64_t after = own.empty() ? 0 : all.end - own.end;
    if (!finite(gradients_.narrow(0, all.begin, before)) ||
        !finite(gradients_.narrow(0, all.end - after, after))) {
      return Health::kBad;
    }
  }
  if (own.empty()) return Health::kFinite;
  const Tensor here = own_gradients_.narrow(0, own.begin - summed.begin, own.size());
  return finite(here) ? Health::kFinite : Health::kBadInOwnPart;
}

// --- values

void FlatGroup::expect_values(comm::Work work) {
  if (!mesh_->overlap().data || replicas_ == 1 || zero_ == Zero::kNothing) return;
  arrival_ = std::make_shared<nn::Arrival>();
  arrival_->work = std::move(work);
  for (const nn::ParameterPtr& p : parameters_) p->expect_values(arrival_);
}

/// The mean of no values yet is that of the first ones, which may be read from a file after the
/// group is made.
void FlatGroup::begin_mean() {
  if (std::exchange(has_mean_, true) || !value_mean_.defined()) return;
  value_mean_.copy_(own_values_);
}

void FlatGroup::update(kernels::AdamStep step) {
  step.decay = decay_;
  begin_mean();
  const bool same = values_.scalar_type() == own_values_.scalar_type();
  kernels::adamw(own_values_, own_gradients_, mean_, square_, same ? own_values_ : own(values_),
                 step, value_mean_);
  // Gradient, value and both moments are read; value and moments are written, and the value in the
  // type of computation. The mean of the values is read and written.
  schedule::Arithmetic arithmetic =
      value_mean_.defined() ? tensor::loop_over(mean_, 9, 18) : tensor::loop_over(mean_, 7, 15);
  arithmetic.work = schedule::Work::kOptimizer;
  if (!same) arithmetic.bytes += Bytes(static_cast<std::int64_t>(own(values_).nbytes()));
  mesh_->compute("adamw", arithmetic);
}

void FlatGroup::exchange_mean() {
  FOURFOLD_CHECK(value_mean_.defined(), "no mean of the values is kept");
  FOURFOLD_CHECK(in_flight_ == nullptr, "a step is under way");
  begin_mean();
  const bool same = values_.scalar_type() == own_values_.scalar_type();
  kernels::exchange(own_values_, value_mean_, same ? own_values_ : own(values_));
}

std::vector<StatePiece> FlatGroup::state(StateOf which) {
  FOURFOLD_CHECK(in_flight_ == nullptr, "a step is under way");
  begin_mean();
  const grid::Range mine = own_range();
  const grid::Range wanted = which == StateOf::kOwn ? mine : part_range();
  std::vector<StatePiece> pieces;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t begin = begins_[i];
    const grid::Range here = grid::intersect({begin, begin + parameters_[i]->size()}, wanted);
    if (here.empty()) continue;
    const auto of = [&](const Tensor& own) {
      return own.defined() ? own.narrow(0, here.begin - mine.begin, here.size()) : Tensor();
    };
    pieces.push_back({parameters_[i],
                      {here.begin - begin, here.end - begin},
                      of(own_values_),
                      of(mean_),
                      of(square_),
                      of(value_mean_)});
  }
  return pieces;
}

void FlatGroup::restored() {
  has_mean_ = true;
  if (values_.scalar_type() != own_values_.scalar_type()) own(values_).copy_(own_values_);
}

void FlatGroup::gather_values() {
  if (replicas_ == 1 || zero_ == Zero::kNothing) return;
  comm::Work work = comm(Purpose::kWeights)
                        .all_gather(tensor::view(own(values_)), tensor::view(values_), priority());
  if (mesh_->overlap().data) {
    expect_values(std::move(work));
  } else {
    work.wait();
  }
}

}  // namespace fourfold::optim
