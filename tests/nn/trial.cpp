// SPDX-License-Identifier: Apache-2.0
#include "tests/nn/trial.hpp"

#include <ATen/TensorOperators.h>

#include "fourfold/comm/counters.hpp"
#include "fourfold/comm/recording/recording.hpp"

#include "tests/support/calls.hpp"

namespace fourfold::test {

using grid::Axis;
using schedule::Op;

void Payload::add(Op op, const grid::Axes& axes, std::int64_t elements) {
  if (mesh_->size(axes) > 1) elements_[{op, grid::to_string(axes)}] += elements;
}

void Payload::add_parameter(std::int64_t rows, std::int64_t columns, const grid::Axes& gathered,
                            const grid::Axes& summed, int times) {
  std::int64_t shard = rows;
  for (const Axis axis : gathered) shard = (shard + mesh_->size(axis) - 1) / mesh_->size(axis);
  add(Op::kAllGather, gathered, times * shard * columns * mesh_->size(gathered));
  add(Op::kReduceScatter, summed, shard * columns * mesh_->size(summed));
}

void Payload::add_swap(std::int64_t elements) {
  const grid::Axes both = {Axis::kX, Axis::kY};
  if (mesh_->index(both) == mesh_->index({Axis::kY, Axis::kX})) return;
  add(Op::kSend, both, elements);
  add(Op::kRecv, both, elements);
}

std::string Payload::difference(const comm::Counts& counts, std::int64_t element_bytes) const {
  std::map<std::pair<Op, std::string>, std::int64_t> left = elements_;
  std::string text;
  for (const auto& [key, calls] : counted(counts)) {
    const std::int64_t expected = left[key] * element_bytes;
    if (calls.payload != expected) {
      text += concat(" ", key.first, " over ", key.second, ": ", calls.payload, " bytes, not ",
                     expected);
    }
    left.erase(key);
  }
  for (const auto& [key, elements] : left) {
    if (elements > 0) text += concat(" no ", key.first, " over ", key.second);
  }
  return text;
}

Trial::Trial(const tensor::Mesh& mesh, const nn::Precision& precision)
    : mesh_(&mesh), precision_(precision), in_flight_(mesh) {}

std::int64_t Trial::samples() const {
  return kSamples / mesh_->size({Axis::kData, Axis::kZ});
}

Tensor Trial::part(const Tensor& whole, const grid::Layout& layout) const {
  if (mesh_->dry()) {
    return at::empty(layout.shard_shape(whole.sizes().vec(), mesh_->grid()),
                     at::TensorOptions(precision_.compute).device(at::kMeta));
  }
  return part_of(*mesh_, whole.detach(), layout).to(precision_.compute);
}

Tensor Trial::input(const Tensor& whole, const grid::Layout& layout, const std::string& name) {
  Tensor tensor = part(whole, layout).set_requires_grad(whole.requires_grad());
  inputs_.push_back({tensor, whole, {}, layout, name});
  return tensor;
}

void Trial::parameter(const nn::ParameterPtr& parameter, const Tensor& whole) {
  if (!mesh_->dry()) load(*mesh_, *parameter, whole.detach());
  parameters_.emplace_back(parameter, whole);
}

const nn::Pass& Trial::pass(const nn::Layer& layer) {
  const nn::Vectors& vectors = vectors_.emplace_back(*mesh_, layer.vectors());
  return passes_.emplace_back(in_flight_, vectors);
}

void Trial::output(const Tensor& output, const Tensor& whole, const Tensor& upstream,
                   const grid::Layout& layout, const std::string& name) {
  outputs_.push_back({output, whole, upstream, layout, name});
}

void Trial::backward() {
  Tensor sum;
  for (const Item& item : outputs_) {
    const Tensor one = (item.tensor * part(item.upstream, item.layout)).sum();
    sum = sum.defined() ? sum + one : one;
  }
  sum.backward();
  in_flight_.sums().drain();
}

void Trial::compare(Worst& worst, const std::string& name) {
  nn::Parameters list;
  for (const auto& [parameter, whole] : parameters_) list.push_back(parameter);
  sum_over_replicas(*mesh_, list);
  Worst here;
  const auto see = [&](const Item& item, const Tensor& found, const Tensor& whole,
                       const std::string& what) {
    here.see(relative_error(found.detach().to(at::kDouble),
                            part_of(*mesh_, whole.detach(), item.layout), whole),
             what);
  };
  for (const Item& item : outputs_) see(item, item.tensor, item.whole, item.name);
  for (const Item& item : inputs_) {
    if (!item.whole.requires_grad()) continue;
    see(item, item.tensor.grad(), item.whole.grad(), "gradient of " + item.name);
  }
  for (const auto& [parameter, whole] : parameters_) {
    see_gradient(here, *mesh_, *parameter, whole.grad());
  }
  worst.see(here.error, name + ": " + here.where);
}

namespace {

std::string difference(const schedule::Schedule& a, const schedule::Schedule& b) {
  for (std::size_t i = 0; i < std::min(a.steps().size(), b.steps().size()); ++i) {
    if (a.steps()[i] == b.steps()[i]) continue;
    return concat("step ", i, ": ", schedule::to_string(a.steps()[i]), " against ",
                  schedule::to_string(b.steps()[i]));
  }
  if (a.steps().size() == b.steps().size()) return {};
  return concat(a.steps().size(), " steps against ", b.steps().size());
}

/// Records one run on a mesh, of which `use` may look at the trial and at the mesh afterwards.
template <class Use>
schedule::Schedule record(const tensor::Mesh& mesh, const nn::Precision& precision,
                          const Layers& layers, const Use& use) {
  schedule::Schedule schedule;
  Trial trial(mesh, precision);
  comm::World& world = mesh.world();
  world.reset_counters();
  comm::Recording recording(world, schedule);
  const std::shared_ptr<void> owner = layers(trial);
  trial.backward();
  recording.stop();
  use(trial);
  return schedule;
}

}  // namespace

std::vector<Accuracy> accuracies() {
  return {{nn::Precision::float64(), 1e-10},
          {nn::Precision::float32(), 2e-5},
          {nn::Precision::bf16(), 0.04}};
}

void see_trial(Worst& worst, const tensor::Mesh& mesh, const Accuracy& accuracy,
               const Layers& layers, const Sends& sends, const std::string& name) {
  const nn::Precision& precision = accuracy.precision;
  const std::string where = concat(name, " (", precision.compute, ")");
  comm::World& world = mesh.world();
  const schedule::Schedule real = record(mesh, precision, layers, [&](Trial& trial) {
    if (sends && precision.compute == at::kDouble) {
      Payload payload(mesh);
      sends(payload);
      const std::string text = payload.difference(world.counters(), sizeof(double));
      if (!text.empty()) worst.see(INFINITY, concat(where, " sends", text));
    }
    Worst here;
    trial.compare(here, where);
    worst.see(here.error / accuracy.tolerance, here.where);
  });
  comm::World recording = comm::recording::open(world.rank(), world.size());
  const tensor::Mesh dry(recording, mesh.grid(), mesh.overlap());
  const schedule::Schedule planned = record(dry, precision, layers, [](Trial&) {});
  const std::string text = difference(real, planned);
  if (!text.empty()) worst.see(INFINITY, concat(where, ": the dry run differs at ", text));
}

void expect_on_grid(const grid::Sizes& sizes,
                    const std::function<void(Worst&, const tensor::Mesh&)>& body) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    Worst worst;
    body(worst, mesh);
    expect_on_all_ranks(world, worst.error <= 1,
                        concat(grid, ": ", worst.error, " times the tolerance, ", worst.where));
  });
}

void for_both(const std::function<void(bool, nn::Activations, const std::string&)>& body) {
  using nn::Activations;
  for (const bool transposed : {false, true}) {
    for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
      body(transposed, activations,
           concat(transposed ? "transposed, " : "",
                  activations == Activations::kSharded ? "sharded" : "replicated"));
    }
  }
}

}  // namespace fourfold::test
