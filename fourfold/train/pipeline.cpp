// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/pipeline.hpp"

#include <utility>

#include <torch/csrc/autograd/autograd.h>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/phase_scope.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/pass_scope.hpp"

namespace fourfold::train {

using grid::Axis;
using tensor::Purpose;

Pipeline::Pipeline(const Mesh& mesh, const model::Stages& stages)
    : mesh_(&mesh),
      stages_(&stages),
      places_(mesh.size(Axis::kPipe)),
      place_(mesh.coord()[Axis::kPipe]) {
  for (const Purpose purpose : {Purpose::kActivations, Purpose::kWeights, Purpose::kGradients}) {
    mesh.join(Axis::kPipe, purpose);
  }
  if (stages.is_whole()) return;
  const model::Part& first = stages[0];
  const model::Part& last = stages[stages.chunks() - 1];
  if (first.stage().first) {
    shared_ = first.shared();
    owns_shared_ = shared_ != nullptr;
  } else if (last.stage().last) {
    shared_ = last.shared();
  }
  if (!shared_ || owns_shared_) return;
  // The optimizer, which provides memory for the other gradients, does not have this one.
  const tensor::MemoryScope scope(tensor::MemoryClass::kGradients);
  shared_->move_gradient_to(
      at::zeros(shared_->shard_shape(),
                at::TensorOptions(shared_->precision().master).device(mesh.device())));
}

// --- transfers between stages. Hidden states come from the previous place and go to the next, and
// gradients the other way. They go around the ranks where the last chunk of one place is followed
// by another.

const comm::Communicator& Pipeline::comm(bool forward) const {
  return mesh_->comm(Axis::kPipe, forward ? Purpose::kActivations : Purpose::kGradients);
}

bool Pipeline::needs_shared_gradient(const Unit& unit) const {
  return owns_shared_ && !unit.forward && last_of_step(unit) && part(unit).stage().first;
}

/// Starts to receive what the unit needs, while another unit computes.
void Pipeline::expect(const Unit& unit) {
  if (needs_shared_gradient(unit)) {
    const comm::Communicator& along_pipe = mesh_->comm(Axis::kPipe, Purpose::kWeights);
    shared_gradient_ =
        at::empty(shared_->shard_shape(),
                  at::TensorOptions(shared_->precision().master).device(mesh_->device()));
    shared_arriving_ = along_pipe.recv(tensor::view(shared_gradient_), places_ - 1);
  }
  const model::Stage& stage = part(unit).stage();
  if (unit.forward ? stage.first : stage.last) return;
  const model::End end = unit.forward ? model::End::kInput : model::End::kOutput;
  expected_ = part(unit).all_empty_hidden(batch_, end);
  const int peer = (place_ + (unit.forward ? places_ - 1 : 1)) % places_;
  std::vector<comm::Communicator::Receiving> receives;
  for (const Tensor& one : expected_) receives.push_back({tensor::view(one), peer});
  arriving_ = comm(unit.forward).transfer({}, std::move(receives));
}

std::vector<Tensor> Pipeline::arrived() {
  arriving_.wait();
  return std::exchange(expected_, {});
}

Pipeline::Sent Pipeline::send(std::vector<Tensor> tensors, bool forward) const {
  const int peer = (place_ + (forward ? 1 : places_ - 1)) % places_;
  std::vector<comm::Communicator::Sending> sends;
  for (Tensor& one : tensors) {
    one = one.detach().contiguous();
    sends.push_back({tensor::view(one), peer});
  }
  Sent sent{std::move(tensors), {}};
  sent.work = comm(forward).transfer(std::move(sends), {});
  return sent;
}

/// Keeps a transfer until enough later ones have been sent. By then it has arrived long ago, since
/// the peer has sent results that depend on it: with one chunk it is two passes behind at most.
void Pipeline::keep_sending(Sent sent) {
  const int chunks = stages_->chunks();
  const auto later = static_cast<std::size_t>(chunks == 1 ? 3 : 2 * places_ * chunks);
  sent_.push_back(std::move(sent));
  if (sent_.size() <= later) return;
  sent_.front().work.wait();
  sent_.pop_front();
}

// --- passes

void Pipeline::backward(const Unit& unit, const std::vector<Tensor>& gradients,
                        const BeginPass& begin_pass, tensor::InFlight& in_flight) {
  const comm::PhaseScope phase(schedule::Phase::kBackward);
  const model::Part& here = part(unit);
  const PassScope scope(unit.micro_batch, here.stage().blocks.begin);
  begin_pass(here.parameters());
  if (needs_shared_gradient(unit)) {
    shared_arriving_.wait();
    shared_->accumulate(std::exchange(shared_gradient_, Tensor()));
  }
  const auto found = open_.find({unit.chunk, unit.micro_batch});
  FOURFOLD_CHECK(found != open_.end(), "a backward pass without its forward pass");
  Open open = std::move(found->second);
  open_.erase(found);
  open.sent.work.wait();  // it has ended: the gradients of what was sent have arrived
  torch::autograd::backward(open.outputs, gradients);
  if (!here.stage().first) {
    std::vector<Tensor> results;
    for (const Tensor& input : open.inputs) results.push_back(input.grad());
    keep_sending(send(std::move(results), false));
  }
  if (here.stage().last && last_of_step(unit)) give_shared_gradient(in_flight);
}

void Pipeline::give_shared_gradient(tensor::InFlight& in_flight) {
  if (!shared_ || owns_shared_) return;
  in_flight.sums().drain();
  const Tensor gradient = shared_->gradient();
  const comm::Communicator& along_pipe = mesh_->comm(Axis::kPipe, Purpose::kWeights);
  keep_sending({{gradient}, along_pipe.send(tensor::view(gradient), 0)});
}

void Pipeline::forget_loss() {
  loss_ = at::zeros({}, at::TensorOptions(at::kDouble).device(mesh_->device()));
}

Tensor Pipeline::run(tensor::InFlight& in_flight, std::int64_t micro_batches, std::int64_t terms,
                     const ReadInput& read, const BeginPass& begin_pass) {
  batch_ = stages_->model().batch(stages_->samples());
  micro_batches_ = micro_batches;
  forget_loss();
  if (shared_ && !owns_shared_) {
    shared_->forget_gradient();
    // In the first step, or after a validation, its values are treated as those that arrive after
    // an update, so that every step gathers in the same order.
    if (!shared_arrival_ || shared_arrival_->waited) {
      shared_arrival_ = std::make_shared<nn::Arrival>();
      shared_->expect_values(shared_arrival_);
    }
  }
  const std::vector<Unit> units = pipeline_units(places_, place_, stages_->chunks(), micro_batches);
  expect(units[0]);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    std::vector<Tensor> arrived_now = arrived();
    if (i + 1 < units.size()) expect(units[i + 1]);
    if (!unit.forward) {
      backward(unit, arrived_now, begin_pass, in_flight);
      continue;
    }
    const model::Part& here = part(unit);
    const model::Stage& stage = here.stage();
    const PassScope scope(unit.micro_batch, stage.blocks.begin);
    Open open;
    for (Tensor& input : arrived_now) open.inputs.push_back(input.set_requires_grad(true));
    nn::Pass pass(in_flight, true);
    open.outputs =
        here.run(open.inputs, read(unit.micro_batch, stage.first || stage.last), terms, pass);
    if (stage.last) loss_.add_(open.outputs[0].detach());
    if (!stage.last) open.sent = send(open.outputs, true);
    open_[{unit.chunk, unit.micro_batch}] = std::move(open);
  }
  for (Sent& sent : sent_) sent.work.wait();
  sent_.clear();
  shared_sent_.work.wait();
  shared_sent_ = {};
  return std::exchange(loss_, Tensor());
}

void Pipeline::run_forward(tensor::InFlight& in_flight, const nn::Batch& batch,
                           std::int64_t micro_batches, const RunStage& run) {
  const at::NoGradGuard no_graph;
  batch_ = batch;
  micro_batches_ = micro_batches;
  const std::vector<Unit> units = forward_units(places_, stages_->chunks(), micro_batches);
  expect(units[0]);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::vector<Tensor> inputs = arrived();
    if (i + 1 < units.size()) expect(units[i + 1]);
    const model::Part& here = part(units[i]);
    nn::Pass pass(in_flight);
    const std::vector<Tensor> outputs = run(here, inputs, units[i].micro_batch, pass);
    if (!here.stage().last) keep_sending(send(outputs, true));
  }
  for (Sent& sent : sent_) sent.work.wait();
  sent_.clear();
}

// --- the parameter that the first and the last stage share. The first stage owns it. The
// gradient of the last stage is added to that of the first before its last pass ends, and the new
// values are sent back.

void Pipeline::send_shared() {
  if (!shared_) return;
  const comm::Communicator& along_pipe = mesh_->comm(Axis::kPipe, Purpose::kWeights);
  if (owns_shared_) {
    shared_->wait_for_values();
    const Tensor values = shared_->value().detach();
    shared_sent_ = {{values}, along_pipe.send(tensor::view(values), places_ - 1)};
  } else {
    shared_arrival_ = std::make_shared<nn::Arrival>();
    shared_arrival_->work = along_pipe.recv(tensor::view(shared_->leaf().detach()), 0);
    shared_->expect_values(shared_arrival_);
  }
}

void Pipeline::finish() {
  shared_sent_.work.wait();
  if (shared_) shared_->wait_for_values();
}

}  // namespace fourfold::train
