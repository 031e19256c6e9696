// SPDX-License-Identifier: Apache-2.0
#include "fourfold/optim/adamw.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/zeros.h>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/phase_scope.hpp"

namespace fourfold::optim {

namespace {

/// Waits for the sums of gradients that backward passes have left under way.
void drain(tensor::InFlight& in_flight) {
  const comm::PhaseScope phase(schedule::Phase::kBackward);
  in_flight.sums().drain();
}

/// Parameters that are communicated in one operation.
struct Segment {
  std::size_t first_use = 0;  // the place of its first parameter in the order of use
  nn::Parameters parameters;
  double decay = 0;
};

/// Collects parameters until they fill one segment.
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

/// A packer for each kind of parameters that may be communicated together.
class Packers {
 public:
  Packers(const Mesh& mesh, double decay, std::vector<Segment>& segments)
      : mesh_(&mesh), decay_(decay), segments_(&segments) {}

  Packer& of(const nn::Parameter& parameter) {
    const bool matrix = parameter.spec().shape.size() > 1;
    for (Entry& entry : entries_) {
      if (entry.matrix == matrix && entry.replicas == parameter.spec().replicas) {
        return entry.packer;
      }
    }
    entries_.push_back(
        {matrix, parameter.spec().replicas, Packer(*mesh_, matrix ? decay_ : 0.0, *segments_)});
    return entries_.back().packer;
  }

  void close() {
    for (Entry& entry : entries_) entry.packer.close();
  }

 private:
  struct Entry {
    bool matrix;
    grid::Axes replicas;
    Packer packer;
  };

  const Mesh* mesh_;
  double decay_;
  std::vector<Segment>* segments_;
  std::vector<Entry> entries_;
};

}  // namespace

AdamW::AdamW(const Mesh& mesh, const std::vector<nn::Parameters>& groups, const AdamWSpec& spec)
    : mesh_(&mesh), spec_(spec) {
  nn::Parameters all;
  for (const nn::Parameters& group : groups) all.insert(all.end(), group.begin(), group.end());
  nn::check_parameters(mesh, all, "AdamW");
  for (const nn::ParameterPtr& p : all) p->collector().check_free();
  std::vector<Segment> segments;
  // Matrices and vectors may have different types, and have different decay.
  Packers packers(mesh, spec.decay, segments);
  std::size_t use = 0;
  for (const nn::Parameters& group : groups) {
    for (const nn::ParameterPtr& p : group) packers.of(*p).add(p, use++);
    if (&group == &groups.front()) packers.close();
  }
  packers.close();
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.first_use < b.first_use; });
  for (Segment& segment : segments) {
    groups_.emplace_back(mesh, std::move(segment.parameters), segment.decay, spec.zero,
                         spec.mean_decay > 0);
  }
}

AdamW::Step AdamW::begin_step(tensor::InFlight& in_flight, std::int64_t passes) {
  if (in_step_) {
    throw InvariantError("begin_step within a step: update it, or let go of it, before the next");
  }
  if (passes < 1) throw InvariantError(concat("begin_step(", passes, "): a step has passes"));
  in_flight.sums().drain();  // left over from a step without an update
  for (FlatGroup& group : groups_) group.begin_step(in_flight, passes);
  in_step_ = true;
  return Step(*this, in_flight);
}

void AdamW::end_step() {
  for (FlatGroup& group : groups_) group.end_step();
  in_step_ = false;
}

void AdamW::Step::check(const char* call, State expected, const char* otherwise) const {
  if (state_ == State::kEnded) throw InvariantError(concat(call, " after the step has ended"));
  if (state_ != expected) throw InvariantError(concat(call, otherwise));
}

void AdamW::Step::begin_pass() {
  for (const FlatGroup& group : optimizer_->groups_) begin_pass(group.parameters());
}

void AdamW::Step::begin_pass(const nn::Parameters& parameters) {
  check("begin_pass", State::kPasses, " after reduce_gradients");
  // Gradients that are summed pass by pass must not mix with those of the next pass.
  if (optimizer_->spec_.zero == Zero::kGradients) drain(*in_flight_);
  for (const nn::ParameterPtr& p : parameters) p->collector().begin_pass();
}

Tensor AdamW::Step::reduce_gradients() {
  check("reduce_gradients", State::kPasses, " for a second time");
  Tensor squares = optimizer_->reduce_gradients(*in_flight_);
  state_ = State::kReduced;
  return squares;
}

void AdamW::Step::update(std::int64_t number, double rate, double gradient_scale) {
  check("update", State::kReduced, " before reduce_gradients");
  if (number < 1) throw InvariantError(concat("update of step ", number, ": steps count from 1"));
  optimizer_->update(number, rate, gradient_scale);
  end();
}

void AdamW::Step::end() {
  if (std::exchange(state_, State::kEnded) != State::kEnded) optimizer_->end_step();
}

Tensor AdamW::reduce_gradients(tensor::InFlight& in_flight) {
  drain(in_flight);
  const comm::PhaseScope phase(schedule::Phase::kUpdate);
  for (const FlatGroup& group : groups_) {
    for (const nn::ParameterPtr& p : group.parameters()) p->collector().check_passes_done();
  }
  // The groups are in the order in which the backward pass completes them. Groups whose sum has not
  // begun start it here.
  const Tensor squares = at::zeros({}, at::TensorOptions(at::kDouble).device(mesh_->device()));
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) {
    group->reduce_gradients();
    group->add_squares_to(squares);
  }
  return squares;
}

Health AdamW::gradient_health(const nn::Parameter& parameter) const {
  for (const FlatGroup& group : groups_) {
    for (std::size_t i = 0; i < group.parameters().size(); ++i) {
      if (group.parameters()[i].get() == &parameter) return group.health(i);
    }
  }
  throw InvariantError(parameter.name() + " is not one of the optimizer's");
}

void AdamW::update(std::int64_t number, double rate, double gradient_scale) {
  const comm::PhaseScope phase(schedule::Phase::kUpdate);
  const kernels::AdamStep numbers{.rate = rate,
                                  .beta1 = spec_.beta1,
                                  .beta2 = spec_.beta2,
                                  .epsilon = spec_.epsilon,
                                  .gradient_scale = gradient_scale,
                                  .step = number,
                                  .mean_decay = mean_decay_of(spec_.mean_decay, number)};
  for (FlatGroup& group : groups_) {
    group.update(numbers);
    group.gather_values();
  }
}

void AdamW::gather_values() {
  const comm::PhaseScope phase(schedule::Phase::kUpdate);
  for (FlatGroup& group : groups_) group.gather_values();
}

void AdamW::exchange_mean() {
  if (in_step_) throw InvariantError("exchange_mean within a step");
  for (FlatGroup& group : groups_) group.exchange_mean();
  gather_values();
}

std::vector<StatePiece> AdamW::state(StateOf which) {
  if (in_step_) throw InvariantError("the optimizer's state within a step");
  std::vector<StatePiece> all;
  for (FlatGroup& group : groups_) {
    for (StatePiece& piece : group.state(which)) all.push_back(std::move(piece));
  }
  return all;
}

void AdamW::restored() {
  for (FlatGroup& group : groups_) group.restored();
  gather_values();
}

double mean_decay_of(double largest, std::int64_t number) {
  const auto k = static_cast<double>(number);
  return std::min(largest, (1 + k) / (10 + k));
}

double clip_scale(double norm, double largest) {
  // The small constant is that of the usual implementations, with which results are compared.
  return largest > 0 ? std::min(1.0, largest / (norm + 1e-6)) : 1.0;
}

}  // namespace fourfold::optim
