// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/panels.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::tensor {

// --- panels that are sent to all

Panels::Panels(const comm::Communicator& comm, Tensor own, bool ahead)
    : comm_(&comm), ahead_(ahead), own_(std::move(own)) {}

void Panels::start() {
  if (ahead_ && comm_->size() > 1 && issued_ < comm_->size()) issue();
}

void Panels::issue() {
  FOURFOLD_CHECK(issued_ - taken_ < 2, "a third panel");
  Tensor& data = panel(issued_);
  if (!data.defined()) {
    const MemoryScope scope(MemoryClass::kCommunication);
    data = at::empty_like(own_);
  }
  works_[static_cast<std::size_t>(issued_ % 2)] = comm_->broadcast(view(data), issued_);
  ++issued_;
}

Tensor Panels::next() {
  FOURFOLD_CHECK(taken_ < comm_->size(), "there are no more panels");
  if (comm_->size() > 1) {
    if (taken_ == issued_) issue();
    works_[static_cast<std::size_t>(taken_ % 2)].wait();
  }
  return panel(taken_++);
}

// --- panels that are summed for one rank

PanelSums::PanelSums(const comm::Communicator& comm, std::vector<std::int64_t> shape,
                     const at::TensorOptions& options, comm::Priority priority, bool behind)
    : comm_(&comm),
      shape_(std::move(shape)),
      options_(options),
      priority_(priority),
      behind_(behind) {}

Tensor PanelSums::summand() {
  FOURFOLD_CHECK(sent_ < comm_->size(), "there are no more sums");
  const auto slot = static_cast<std::size_t>(sent_ % 2);
  works_[slot].wait();
  if (comm_->size() == 1) return sum_ = at::empty(shape_, options_);
  if (!summands_[slot].defined()) {
    const MemoryScope scope(MemoryClass::kCommunication);
    summands_[slot] = at::empty(shape_, options_);
  }
  return summands_[slot];
}

void PanelSums::send() {
  const int root = sent_++;
  if (comm_->size() == 1) return;
  const auto slot = static_cast<std::size_t>(root % 2);
  const bool here = root == comm_->rank();
  if (here) sum_ = at::empty(shape_, options_);
  const comm::View out = here ? view(sum_) : comm::View{};
  works_[slot] = comm_->reduce(view(summands_[slot]), out, root, comm::ReduceOp::kSum, priority_);
  if (!behind_) works_[slot].wait();
}

void PanelSums::finish() {
  // The older operation is waited for first.
  works_[static_cast<std::size_t>(sent_ % 2)].wait();
  works_[static_cast<std::size_t>((sent_ + 1) % 2)].wait();
}

Tensor PanelSums::wait() {
  FOURFOLD_CHECK(sum_.defined(), "a sum that was not sent");
  finish();
  summands_ = {};
  return std::move(sum_);
}

}  // namespace fourfold::tensor
