// Transfers of tensors from many ranks to one, with a bounded number of bytes in flight.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::checkpoint {

/// A tensor in flight.
struct Underway {
  at::Tensor tensor;
  comm::Work work;  // destroyed first: it may still use the tensor

  Bytes bytes() const { return Bytes(static_cast<std::int64_t>(tensor.nbytes())); }
};

/// Sends tensors one after the other, and waits for the oldest when more than `window` bytes would
/// be in flight. A single tensor may be larger.
class Outbox {
 public:
  Outbox(const comm::Communicator& everyone, int receiver, Bytes window)
      : everyone_(everyone), receiver_(receiver), window_(window) {}

  void send(const at::Tensor& tensor);
  /// Waits for all tensors.
  void finish();

 private:
  void wait_for_first();

  comm::Communicator everyone_;
  int receiver_;
  Bytes window_;
  std::deque<Underway> underway_;
  Bytes bytes_;
};

/// A tensor that a rank will send.
struct Expected {
  int rank = 0;
  std::vector<std::int64_t> shape;
  at::ScalarType type = at::kFloat;
};

/// Receives tensors in a given order, ahead of their use: as many as fit into `window` bytes, but
/// at least one. Received tensors use no more memory than that.
class Inbox {
 public:
  Inbox(const comm::Communicator& everyone, std::vector<Expected> expected, Bytes window);

  /// Waits for the next tensor and calls `use` with it, which must not keep it. Then starts to
  /// receive more.
  void next(const std::function<void(const at::Tensor&)>& use);

 private:
  void let_come();

  comm::Communicator everyone_;
  std::vector<Expected> expected_;
  std::size_t asked_ = 0;  // the number of receives that were issued
  Bytes window_;
  std::deque<Underway> underway_;
  Bytes bytes_;
};

}  // namespace fourfold::checkpoint
