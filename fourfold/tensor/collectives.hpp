// Collectives on tensors, along their first dimension. Not differentiable: see functions.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// A tensor that is under way. With a group of one it is there at once, and nothing is issued,
/// counted or recorded.
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  explicit Pending(Tensor value) : value_(std::move(value)) {}
  Pending(Tensor source, Tensor value, comm::Work work)
      : source_(std::move(source)), value_(std::move(value)), work_(std::move(work)) {}

  Pending(Pending&&) noexcept = default;
  /// What was here is waited for when `other` goes.
  Pending& operator=(Pending&& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(value_, other.value_);
    std::swap(work_, other.work_);
    return *this;
  }
  ~Pending() = default;

  /// Waits, and keeps the tensor for `wait`.
  void settle() { work_.wait(); }

  /// Whether there is anything to wait for.
  bool under_way() const { return source_.defined(); }

  /// The tensor, when it is there.
  Tensor wait() {
    work_.wait();
    source_ = Tensor();
    return std::move(value_);
  }

 private:
  // Both are held until the wait, though the operation may have ended long before: so a rank's
  // memory does not depend on timing, and a dry run has the same.
  Tensor source_;
  Tensor value_;
  comm::Work work_;  // the last: it goes first, and waits before the tensors go
};

/// Tensors must be contiguous. The caller keeps them alive until the operation is waited for.
comm::View view(const Tensor& tensor);

/// The members' tensors one after the other.
Pending all_gather(const comm::Communicator& comm, const Tensor& in,
                   comm::Priority priority = comm::Priority::kUrgent);

/// This member's chunk of the sum. The first dimension must be a multiple of the group's size. With
/// a group of one it is the tensor itself, not a copy.
Pending reduce_scatter(const comm::Communicator& comm, const Tensor& in,
                       comm::Priority priority = comm::Priority::kUrgent);

/// The sum or maximum, in place.
Pending all_reduce(const comm::Communicator& comm, const Tensor& in,
                   comm::ReduceOp op = comm::ReduceOp::kSum);

}  // namespace fourfold::tensor
