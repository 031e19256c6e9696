// Operations that were issued and whose results are needed later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

namespace fourfold::tensor {

/// A queue, first in, first out. What is finished, and when, depends only on what was added, not on
/// the speed of the network. So every step and every rank does the same.
class Backlog {
 public:
  /// Holds operations of at most `window` bytes, or a single larger one.
  explicit Backlog(std::int64_t window) : window_(window) {}

  /// `finish` waits for the operation and uses its result. The `bytes` are held until then.
  void add(std::int64_t bytes, std::function<void()> finish);

  /// Finishes all operations, including those that are added meanwhile by `finish`.
  void drain();

 private:
  struct Item {
    std::int64_t bytes;
    std::function<void()> finish;
  };

  void finish_first();

  std::int64_t window_;
  std::int64_t held_ = 0;
  std::deque<Item> items_;
};

}  // namespace fourfold::tensor
