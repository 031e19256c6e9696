// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/pipeline.hpp"

#include <utility>

#include <torch/csrc/autograd/autograd.h>

#include "fourfold/base/check.hpp"

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
  if (stages.is_whole() || !stages.spec().tied) return;
  const model::Gpt& first = stages[0];
  const model::Gpt& last = stages[stages.chunks() - 1];
  if (first.stage().first) {
    table_ = first.table();
    owns_table_ = true;
  } else if (last.stage().last) {
    table_ = last.table();
  }
}

// --- transfers between stages. Hidden states come from the previous place and go to the next, and
// gradients the other way. They go around the ranks where the last chunk of one place is followed
// by another.

const comm::Communicator& Pipeline::comm(bool forward) const {
  return mesh_->comm(Axis::kPipe, forward ? Purpose::kActivations : Purpose::kGradients);
}

bool Pipeline::needs_table_gradient(const Unit& unit) const {
  return owns_table_ && !unit.forward && last_of_step(unit) && part(unit).stage().first;
}

/// Starts to receive what the unit needs, while another unit computes.
void Pipeline::expect(const Unit& unit) {
  if (needs_table_gradient(unit)) {
    const comm::Communicator& tables = mesh_->comm(Axis::kPipe, Purpose::kWeights);
    table_gradient_ =
        at::empty(table_->shard_shape(),
                  at::TensorOptions(table_->precision().master).device(mesh_->device()));
    table_arriving_ = tables.recv(tensor::view(table_gradient_), places_ - 1);
  }
  const model::Stage& stage = part(unit).stage();
  if (unit.forward ? stage.first : stage.last) return;
  const nn::Batch batch{.samples = stages_->samples(), .context = stages_->spec().context};
  const int parts = part(unit).parts_of(batch);
  const int peer = (place_ + (unit.forward ? places_ - 1 : 1)) % places_;
  std::vector<comm::Communicator::Receiving> receives;
  for (int i = 0; i < parts; ++i) {
    expected_.push_back(part(unit).empty_hidden(nn::part_of(batch, i, parts)));
    receives.push_back({tensor::view(expected_.back()), peer});
  }
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
/// the peer has sent results that depend on it.
void Pipeline::keep_sending(Sent sent) {
  const std::size_t lag = 2 * static_cast<std::size_t>(places_ * stages_->chunks());
  sent_.push_back(std::move(sent));
  if (sent_.size() <= lag) return;
  sent_.front().work.wait();
  sent_.pop_front();
}

// --- passes

std::vector<Tensor> Pipeline::forward(const Unit& unit, const std::vector<Tensor>& inputs,
                                      std::int64_t tokens, const ReadPass& read, bool training) {
  const model::Gpt& gpt = part(unit);
  const Pass pass = read(unit.micro_batch, gpt.stage().first || gpt.stage().last);
  std::vector<Tensor> outputs =
      gpt.pass(inputs, pass.tokens, pass.targets, pass.batch, tokens, training);
  if (gpt.stage().last && !mesh_->dry()) loss_ += outputs[0].item<double>();
  return outputs;
}

void Pipeline::backward(const Unit& unit, const std::vector<Tensor>& gradients,
                        const BeginPass& begin_pass) {
  const model::Gpt& gpt = part(unit);
  begin_pass(gpt.parameters());
  if (needs_table_gradient(unit)) {
    table_arriving_.wait();
    table_->accumulate(std::exchange(table_gradient_, Tensor()));
  }
  const auto found = open_.find({unit.chunk, unit.micro_batch});
  FOURFOLD_CHECK(found != open_.end(), "a backward pass without its forward pass");
  Open open = std::move(found->second);
  open_.erase(found);
  open.sent.work.wait();  // it has ended: the gradients of what was sent have arrived
  torch::autograd::backward(open.outputs, gradients);
  if (!gpt.stage().first) {
    std::vector<Tensor> results;
    for (const Tensor& input : open.inputs) results.push_back(input.grad());
    keep_sending(send(std::move(results), false));
  }
  if (gpt.stage().last && last_of_step(unit)) give_table_gradient();
}

void Pipeline::give_table_gradient() {
  if (!table_ || owns_table_) return;
  const Tensor gradient = table_->gradient();
  const comm::Communicator& tables = mesh_->comm(Axis::kPipe, Purpose::kWeights);
  keep_sending({{gradient}, tables.send(tensor::view(gradient), 0)});
}

double Pipeline::run(std::int64_t micro_batches, std::int64_t tokens_of_step, const ReadPass& read,
                     const BeginPass& begin_pass) {
  micro_batches_ = micro_batches;
  loss_ = 0;
  if (table_ && !owns_table_) table_->forget_gradient();
  const std::vector<Unit> units = pipeline_units(places_, place_, stages_->chunks(), micro_batches);
  expect(units[0]);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    std::vector<Tensor> arrived_now = arrived();
    if (i + 1 < units.size()) expect(units[i + 1]);
    if (!unit.forward) {
      backward(unit, arrived_now, begin_pass);
      continue;
    }
    Open open;
    for (Tensor& input : arrived_now) open.inputs.push_back(input.set_requires_grad(true));
    open.outputs = forward(unit, open.inputs, tokens_of_step, read, true);
    if (!part(unit).stage().last) open.sent = send(open.outputs, true);
    open_[{unit.chunk, unit.micro_batch}] = std::move(open);
  }
  for (Sent& sent : sent_) sent.work.wait();
  sent_.clear();
  table_sent_.work.wait();
  table_sent_ = {};
  return loss_;
}

double Pipeline::run_forward(std::int64_t micro_batches, std::int64_t tokens,
                             const ReadPass& read) {
  const at::NoGradGuard no_graph;
  micro_batches_ = micro_batches;
  loss_ = 0;
  const std::vector<Unit> units = forward_units(places_, stages_->chunks(), micro_batches);
  expect(units[0]);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::vector<Tensor> inputs = arrived();
    if (i + 1 < units.size()) expect(units[i + 1]);
    const std::vector<Tensor> outputs = forward(units[i], inputs, tokens, read, false);
    if (!part(units[i]).stage().last) keep_sending(send(outputs, true));
  }
  for (Sent& sent : sent_) sent.work.wait();
  sent_.clear();
  return loss_;
}

// --- the table of tokens that the first and the last stage share. The first stage owns it. The
// gradient of the last stage is added to that of the first before its last pass ends, and the new
// values are sent back.

void Pipeline::share_table() {
  if (!table_) return;
  const comm::Communicator& tables = mesh_->comm(Axis::kPipe, Purpose::kWeights);
  if (owns_table_) {
    const Tensor values = table_->value().detach();
    table_sent_ = {{values}, tables.send(tensor::view(values), places_ - 1)};
  } else {
    table_arrival_ = std::make_shared<nn::Arrival>();
    table_arrival_->work = tables.recv(tensor::view(table_->leaf().detach()), 0);
    table_->expect_values(table_arrival_);
  }
}

void Pipeline::settle() {
  table_sent_.work.wait();
  if (table_) static_cast<void>(table_->value());
}

}  // namespace fourfold::train
