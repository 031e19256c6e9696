// Collectives on tensors, along their first dimension. They are not differentiable: see
// functions.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// A tensor that is the result of an operation under way. With a group of one the tensor is
/// available at once, and nothing is issued, counted or recorded.
class [[nodiscard]] Pending {
 public:
  Pending() = default;
  explicit Pending(Tensor value) : value_(std::move(value)) {}
  Pending(Tensor source, Tensor value, comm::Work work)
      : source_(std::move(source)), value_(std::move(value)), work_(std::move(work)) {}

  Pending(Pending&&) noexcept = default;
  /// The previous operation of this object is waited for when `other` is destroyed.
  Pending& operator=(Pending&& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(value_, other.value_);
    std::swap(work_, other.work_);
    return *this;
  }
  ~Pending() = default;

  /// Waits for the operation, and keeps the tensor for `wait`.
  void finish() { work_.wait(); }

  /// Whether there is anything to wait for.
  bool under_way() const { return source_.defined(); }

  /// Waits for the operation and returns the tensor.
  Tensor wait() {
    work_.wait();
    source_ = Tensor();
    return std::move(value_);
  }

 private:
  // Both tensors are held until the wait, though the operation may have ended long before. So the
  // memory of a rank does not depend on timing, and is the same in a dry run.
  Tensor source_;
  Tensor value_;
  comm::Work work_;  // last member: destroyed first, and waits before tensors are freed
};

/// Whether the memory of a tensor is that of a device, which the host must not read in a step.
bool on_device(const Tensor& tensor);

/// A view of a tensor, which must be contiguous. The caller keeps it alive until the operation is
/// waited for. It says whether the tensor lies in main memory or in that of a GPU, which decides
/// who communicates.
comm::View view(const Tensor& tensor);

/// While it lives, main memory counts as memory of the device for the calling thread, and tensors
/// there are communicated by the device of the world: so a stand-in for a device runs all that a
/// GPU would.
class [[nodiscard]] MainMemoryIsDevice {
 public:
  MainMemoryIsDevice();
  MainMemoryIsDevice(const MainMemoryIsDevice&) = delete;
  MainMemoryIsDevice& operator=(const MainMemoryIsDevice&) = delete;
  ~MainMemoryIsDevice();

 private:
  bool before_;
};

/// The tensors of all members, one after the other.
Pending all_gather(const comm::Communicator& comm, const Tensor& in,
                   comm::Priority priority = comm::Priority::kUrgent);

/// This member's chunk of the sum. The first dimension must be a multiple of the group's size. With
/// a group of one the result is the tensor itself, not a copy.
Pending reduce_scatter(const comm::Communicator& comm, const Tensor& in,
                       comm::Priority priority = comm::Priority::kUrgent);

/// The sum or maximum, in place.
Pending all_reduce(const comm::Communicator& comm, const Tensor& in,
                   comm::ReduceOp op = comm::ReduceOp::kSum);

}  // namespace fourfold::tensor
