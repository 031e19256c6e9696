// The blocks of a matrix that the ranks of a group have, taken in turn: each rank's sent to all, or
// summed over all for each rank. The next is under way while the current one is worked on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// Panel t is the block of rank t of the group, on every rank. There is memory for two of them: the
/// one that is used, and the one that comes. In a group of one nothing is issued.
class Panels {
 public:
  Panels() = default;
  /// `own` is this rank's block, of the same shape on all ranks. With `ahead` false each panel is
  /// sent when it is asked for.
  Panels(const comm::Communicator& comm, Tensor own, bool ahead);

  /// Sends the next panel that is not under way, if there is one. The one before the last that was
  /// taken must not be used any more.
  void start();
  /// The next panel, when it is there.
  Tensor next();

 private:
  void issue();
  Tensor& panel(int number) {
    return number == comm_->rank() ? own_ : buffers_[static_cast<std::size_t>(number % 2)];
  }

  const comm::Communicator* comm_ = nullptr;
  bool ahead_ = false;
  int issued_ = 0;
  int taken_ = 0;
  Tensor own_;
  std::array<Tensor, 2> buffers_;
  std::array<comm::Work, 2> works_;  // the last: they go first, and wait before the tensors go
};

/// Sum t is that of all ranks' summands number t, and goes to rank t of the group. There is memory
/// for two summands: the one that is computed, and the one that is under way.
class PanelSums {
 public:
  PanelSums() = default;
  /// Of matrices of that shape and type. With `behind` false each sum is waited for at once.
  PanelSums(const comm::Communicator& comm, std::vector<std::int64_t> shape,
            const at::TensorOptions& options, comm::Priority priority, bool behind);

  /// Where the next summand is to be written, when the memory is free.
  Tensor summand();
  /// It is there.
  void send();
  /// Waits for everything, and keeps this rank's sum for `wait`.
  void settle();
  /// This rank's sum.
  Tensor wait();

 private:
  const comm::Communicator* comm_ = nullptr;
  std::vector<std::int64_t> shape_;
  at::TensorOptions options_;
  comm::Priority priority_ = comm::Priority::kUrgent;
  bool behind_ = false;
  int sent_ = 0;
  Tensor sum_;  // this rank's
  std::array<Tensor, 2> summands_;
  std::array<comm::Work, 2> works_;  // the last: they go first, and wait before the tensors go
};

}  // namespace fourfold::tensor
