// The blocks of a matrix that the ranks of a group have, taken in turn. Each rank's block is sent
// to all ranks, or summed over all ranks for one rank. The next block is under way while the
// current one is used.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <vector>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::tensor {

/// Panel t is the block of rank t of the group, on every rank. There is memory for two panels: the
/// current one and the next one. In a group of one nothing is issued.
class Panels {
 public:
  Panels() = default;
  /// `own` is this rank's block, of the same shape on all ranks. If `ahead` is false, each panel is
  /// sent when `next` is called.
  Panels(const comm::Communicator& comm, Tensor own, bool ahead);

  /// Sends the next panel that is not under way, if there is one. The caller must not use the panel
  /// before the one that was taken last any more.
  void start();
  /// Waits for the next panel and returns it.
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
  std::array<comm::Work, 2> works_;  // last member: destroyed first, and they wait
};

/// Sum t is the sum of summand number t of all ranks, and goes to rank t of the group. There is
/// memory for two summands: the one that is computed, and the one that is under way.
class PanelSums {
 public:
  PanelSums() = default;
  /// Sums matrices of that shape and type. If `behind` is false, each sum is waited for at once.
  PanelSums(const comm::Communicator& comm, std::vector<std::int64_t> shape,
            const at::TensorOptions& options, comm::Priority priority, bool behind);

  /// Where the next summand is to be written. Waits until the memory is free.
  Tensor summand();
  /// Says that the summand is written, and starts its sum.
  void send();
  /// Waits for all sums, and keeps this rank's sum for `wait`.
  void finish();
  /// Waits and returns this rank's sum.
  Tensor wait();

 private:
  const comm::Communicator* comm_ = nullptr;
  std::vector<std::int64_t> shape_;
  at::TensorOptions options_;
  comm::Priority priority_ = comm::Priority::kUrgent;
  bool behind_ = false;
  int sent_ = 0;
  Tensor sum_;  // the sum of this rank
  std::array<Tensor, 2> summands_;
  std::array<comm::Work, 2> works_;  // last member: destroyed first, and they wait
};

}  // namespace fourfold::tensor
