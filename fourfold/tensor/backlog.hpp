// Operations that were issued, and whose results are for later.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

namespace fourfold::tensor {

/// First in, first out, and never by chance: what is finished when depends on what was added, not
/// on how fast the network is, so that every step and every rank does the same.
class Backlog {
 public:
  /// Holds at most `window` bytes of operations, or one.
  explicit Backlog(std::int64_t window) : window_(window) {}

  /// `finish` waits for the operation and uses its result; `bytes` are held until then.
  void add(std::int64_t bytes, std::function<void()> finish);

  /// Finishes everything, also what finishing adds.
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
