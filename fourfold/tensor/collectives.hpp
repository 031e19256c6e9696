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
  explicit Pending(Tensor value, comm::Work work = {})
      : value_(std::move(value)), work_(std::move(work)) {}

  /// The tensor, when it is there.
  Tensor wait() {
    work_.wait();
    return std::move(value_);
  }

 private:
  Tensor value_;
  comm::Work work_;
};

/// Tensors must be contiguous; they are kept alive while the operation is under way.
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
