// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/gradient_collector.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/comm/layer_scope.hpp"
#include "fourfold/nn/parameter.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::nn {

using grid::Axes;
using tensor::MemoryClass;
using tensor::MemoryScope;
using tensor::Pending;
using tensor::Purpose;

GradientCollector::GradientCollector(Parameter& owner, const Shard& shard,
                                     const Gathering& gathering)
    : owner_(&owner), shard_(&shard), gathering_(&gathering), passes_(shard.spec().name) {
  shard.mesh().join(shard.spec().summed, Purpose::kGradients);
}

std::shared_ptr<GradientCollector> GradientCollector::self() {
  return {owner_->shared_from_this(), this};
}

void GradientCollector::adopt(GradientSink& sink) {
  passes_.adopt();
  sink_ = &sink;
}

void GradientCollector::release() {
  passes_.release();
  sink_ = nullptr;
}

// --- the gradient of the shard

Tensor GradientCollector::gradient() const {
  FOURFOLD_CHECK(under_way_ == 0, name(),
                 ": its gradient is under way; call InFlight::sums().drain() first");
  if (sum_.defined()) {
    throw InvariantError(name() +
                         ": a part of the gradient waits for the backward pass of another graph");
  }
  return has_gradient_ ? gradient_ : Tensor();
}

void GradientCollector::forget() {
  has_gradient_ = false;
  under_way_ = 0;  // what was under way in a step that failed is dropped
  sum_ = Tensor();
}

void GradientCollector::drop() {
  gradient_ = Tensor();
  forget();
}

void GradientCollector::move_to(const Tensor& home) {
  FOURFOLD_CHECK(home.sizes() == shard_->shape() &&
                 home.scalar_type() == shard_->precision().master);
  if (has_gradient_) {
    const comm::LayerScope layer(owner_->layer());
    tensor::copy(shard_->mesh(), "gradient copy", home, gradient_);
  }
  gradient_ = home;
}

GradientCollector::Slot GradientCollector::slot() {
  if (!gradient_.defined() && sink_ != nullptr) sink_->provide_memory(*owner_);
  if (!gradient_.defined()) {
    const MemoryScope scope(MemoryClass::kGradients);
    gradient_ =
        at::empty(shard_->shape(),
                  at::TensorOptions(shard_->precision().master).device(shard_->mesh().device()));
  }
  const kernels::Into into = has_gradient_ ? kernels::Into::kSum : kernels::Into::kNew;
  has_gradient_ = true;
  return {gradient_, into};
}

void GradientCollector::accumulate(const Tensor& part) {
  FOURFOLD_CHECK(part.sizes() == shard_->shape(), name(), ": a gradient of another shape");
  const Slot place = slot();
  const comm::LayerScope layer(owner_->layer());
  if (place.into == kernels::Into::kSum) {
    tensor::add_to(shard_->mesh(), "gradient sum", place.tensor, part);
  } else {
    tensor::copy(shard_->mesh(), "gradient copy", place.tensor, part);
  }
}

// --- uses

GradientCollector::Use::Use(std::shared_ptr<GradientCollector> collector,
                            tensor::InFlight& in_flight)
    : collector_(std::move(collector)), in_flight_(&in_flight) {
  ++collector_->uses_;
}

GradientCollector::Use::~Use() {
  if (open_) --collector_->uses_;  // what other uses have added stays
}

std::shared_ptr<GradientCollector::Use> GradientCollector::use(tensor::InFlight& in_flight) {
  return at::GradMode::is_enabled() ? std::make_shared<Use>(self(), in_flight) : nullptr;
}

GradientCollector::Ended GradientCollector::Use::close() {
  FOURFOLD_CHECK(open_, collector_->name(), ": a second backward pass through the same graph");
  const Ended ended = collector_->end_use();
  open_ = false;
  return ended;
}

void GradientCollector::Use::end() {
  const Ended ended = close();
  if (ended.completes) collector_->reduce(ended, *in_flight_);
}

std::function<void(const Tensor&)> GradientCollector::Use::ending() {
  FOURFOLD_CHECK(!collector_->sum_.defined(), collector_->name(), ": a part of another kind");
  ++collector_->under_way_;
  return [collector = collector_, ended = close()](const Tensor& part) {
    collector->arrive(part, ended);
  };
}

void GradientCollector::Use::end_later(std::int64_t bytes, std::function<Tensor()> part) {
  in_flight_->sums().add(bytes, [arrive = ending(), part = std::move(part)] { arrive(part()); });
}

// --- from the uses to the optimizer

/// Where nothing is to be reduced, uses add to the gradient itself. If there is only one use, no
/// sum is needed: its product is rounded to the type of the wire at once.
GradientCollector::Slot GradientCollector::sum_slot(at::ScalarType wire) {
  if (gathering_->is_whole()) return slot();
  const std::int64_t rows = gathering_->rows();
  const kernels::Into into = sum_.defined() ? kernels::Into::kSum : kernels::Into::kNew;
  if (!sum_.defined()) {
    wire_ = wire;
    const MemoryScope scope(MemoryClass::kCommunication);
    // With several outer blocks, padding is added when the sum is reduced. With one block there is
    // room for the padding at the end.
    const std::int64_t room = gathering_->outer_blocks() == 1 ? gathering_->padded_rows() : rows;
    const at::ScalarType type = uses_ == 1 ? wire : shard_->precision().master;
    grid::Shape sizes = shard_->shape();
    sizes[0] = room;
    sum_ = at::empty(sizes, at::TensorOptions(type).device(shard_->mesh().device()));
    if (room > rows) sum_.narrow(0, rows, room - rows).zero_();
  }
  FOURFOLD_CHECK(wire_ == wire, name(), ": uses that reduce in different types");
  return {sum_.narrow(0, 0, rows), into};
}

GradientCollector::Ended GradientCollector::end_use() {
  passes_.arrive();
  const bool completes = --uses_ == 0;
  if (completes) passes_.complete();
  return {completes, passes_.last()};
}

void GradientCollector::reduce(const Ended& ended, tensor::InFlight& in_flight) {
  if (!sum_.defined()) return complete(ended);
  const comm::LayerScope issuer(owner_->layer());
  const MemoryScope scope(MemoryClass::kCommunication);
  Tensor padded = std::exchange(sum_, Tensor());
  if (gathering_->outer_blocks() > 1) padded = gathering_->pad(padded);
  const Tensor own = tensor::cast(shard_->mesh(), "gradient cast", own_part(padded), wire_);
  padded = Tensor();
  auto reduced = std::make_shared<Pending>(
      tensor::reduce_scatter(comm(), own,
                             shard_->mesh().overlap().weight_gradients ? comm::Priority::kBackground
                                                                       : comm::Priority::kUrgent));
  ++under_way_;
  in_flight.sums().add(static_cast<std::int64_t>(own.nbytes()),
                       [self = self(), reduced, ended] { self->arrive(reduced->wait(), ended); });
}

const comm::Communicator& GradientCollector::comm() const {
  return shard_->mesh().comm(shard_->spec().summed, Purpose::kGradients);
}

Tensor GradientCollector::own_part(const Tensor& padded) const {
  const ParameterSpec& spec = shard_->spec();
  if (spec.summed == spec.gathered) return padded;
  FOURFOLD_CHECK(spec.gathered.size() == 2 && spec.summed == Axes(spec.gathered[1]), spec.name,
                 ": summed over ", spec.summed, ", gathered over ", spec.gathered);
  const std::int64_t part = padded.size(0) / gathering_->outer_blocks();
  return padded.narrow(0, shard_->mesh().index(spec.gathered[0]) * part, part);
}

void GradientCollector::arrive(const Tensor& part, const Ended& ended) {
  --under_way_;
  accumulate(part);
  if (ended.completes) complete(ended);
}

void GradientCollector::complete(const Ended& ended) {
  if (sink_ != nullptr) sink_->complete(*owner_, ended.last);
}

}  // namespace fourfold::nn
