// SPDX-License-Identifier: Apache-2.0
#include "fourfold/optim/adamw.hpp"

#include <algorithm>

#include "fourfold/base/check.hpp"

namespace fourfold::optim {

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

/// A packer for each kind of parameters that travel together.
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

AdamW::AdamW(const Mesh& mesh, const std::vector<nn::Parameters>& stages, const AdamWSpec& spec)
    : mesh_(&mesh), spec_(spec) {
  std::vector<Segment> segments;
  // Matrices and vectors may differ in type, and differ in decay.
  Packers packers(mesh, spec.decay, segments);
  std::size_t use = 0;
  for (const nn::Parameters& stage : stages) {
    for (const nn::ParameterPtr& p : stage) packers.of(*p).add(p, use++);
    if (&stage == &stages.front()) packers.close();
  }
  packers.close();
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.first_use < b.first_use; });
  for (Segment& segment : segments) {
    groups_.emplace_back(mesh, std::move(segment.parameters), segment.decay, spec.zero);
  }
}

void AdamW::begin_step() {
  for (FlatGroup& group : groups_) group.begin_step();
}

void AdamW::end_pass() {
  // Gradients that are summed pass by pass must not mix with the next one's.
  if (spec_.zero == Zero::kGradients) mesh_->backlog().drain();
}

double AdamW::reduce_gradients() {
  mesh_->backlog().drain();
  // In the order in which the backward pass ends them; those that have not begun do so here.
  double squares = 0;
  for (auto group = groups_.rbegin(); group != groups_.rend(); ++group) {
    group->reduce_gradients();
    squares += group->sum_of_squares();
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
