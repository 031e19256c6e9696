// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/backlog.hpp"

#include <utility>

namespace fourfold::tensor {

void Backlog::add(std::int64_t bytes, std::function<void()> finish) {
  items_.push_back({bytes, std::move(finish)});
  held_ += bytes;
  while (held_ > window_ && items_.size() > 1) finish_first();
}

void Backlog::drain() {
  while (!items_.empty()) finish_first();
}

void Backlog::finish_first() {
  // The item is taken out first, since finishing it may add more items or throw.
  const Item item = std::move(items_.front());
  items_.pop_front();
  held_ -= item.bytes;
  item.finish();
}

}  // namespace fourfold::tensor
