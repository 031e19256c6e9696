// Tensors on their way from many ranks to one, a bounded number of bytes at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <vector>

#include "fourfold/comm/communicator.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::checkpoint {

/// A tensor under way and its bytes.
struct Underway {
  at::Tensor tensor;
  comm::Work work;  // goes first: it may still use the tensor

  Bytes bytes() const { return Bytes(static_cast<std::int64_t>(tensor.nbytes())); }
};

/// Sends tensors one after the other, and waits for the first ones when more than `window` bytes
/// would be under way. A single tensor may be larger.
class Outbox {
 public:
  Outbox(const comm::Communicator& everyone, int receiver, Bytes window)
      : everyone_(everyone), receiver_(receiver), window_(window) {}

  void send(const at::Tensor& tensor);
  /// Waits for all of them.
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

/// Receives tensors in a given order, ahead of their use: as many as `window` bytes hold, at least
/// one. What is received takes no more memory than that.
class Inbox {
 public:
  Inbox(const comm::Communicator& everyone, std::vector<Expected> expected, Bytes window);

  /// Waits for the next one and calls `use` with it, which must not keep it; then lets more come.
  void next(const std::function<void(const at::Tensor&)>& use);

 private:
  void let_come();

  comm::Communicator everyone_;
  std::vector<Expected> expected_;
  std::size_t asked_ = 0;  // of the expected ones
  Bytes window_;
  std::deque<Underway> underway_;
  Bytes bytes_;
};

}  // namespace fourfold::checkpoint
