// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/transfer_window.hpp"

#include <ATen/ops/empty.h>

#include "fourfold/base/check.hpp"
#include "fourfold/tensor/collectives.hpp"

namespace fourfold::checkpoint {

using at::Tensor;

void Outbox::wait_for_first() {
  underway_.front().work.wait();
  bytes_ -= underway_.front().bytes();
  underway_.pop_front();
}

void Outbox::send(const Tensor& tensor) {
  const Bytes more(static_cast<std::int64_t>(tensor.nbytes()));
  while (!underway_.empty() && bytes_ + more > window_) wait_for_first();
  underway_.push_back({tensor, everyone_.send(tensor::view(tensor), receiver_)});
  bytes_ += more;
}

void Outbox::finish() {
  while (!underway_.empty()) wait_for_first();
}

Inbox::Inbox(const comm::Communicator& everyone, std::vector<Expected> expected, Bytes window)
    : everyone_(everyone), expected_(std::move(expected)), window_(window) {
  let_come();
}

void Inbox::let_come() {
  for (; asked_ < expected_.size(); ++asked_) {
    const Expected& next = expected_[asked_];
    std::int64_t more = static_cast<std::int64_t>(c10::elementSize(next.type));
    for (const std::int64_t size : next.shape) more *= size;
    if (!underway_.empty() && bytes_ + Bytes(more) > window_) return;
    const Tensor tensor = at::empty(next.shape, next.type);
    underway_.push_back({tensor, everyone_.recv(tensor::view(tensor), next.rank)});
    bytes_ += Bytes(more);
  }
}

void Inbox::next(const std::function<void(const Tensor&)>& use) {
  FOURFOLD_CHECK(!underway_.empty(), "no more tensors are expected");
  Underway& first = underway_.front();
  first.work.wait();
  use(first.tensor);
  bytes_ -= first.bytes();
  underway_.pop_front();
  let_come();
}

}  // namespace fourfold::checkpoint
