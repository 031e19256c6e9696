// On whose behalf a thread computes and communicates: schedules and timelines name it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace fourfold::comm {

/// While it lives, what this thread computes and issues belongs to `layer`, whose text must live as
/// long; an empty one is nobody. Costs two words, whether or not anybody records. Never alive
/// across a co_await: other layers run meanwhile.
class LayerScope {
 public:
  explicit LayerScope(std::string_view layer) : outer_(current_) { current_ = layer; }
  ~LayerScope() { current_ = outer_; }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;

  static std::string_view current() { return current_; }

 private:
  static inline thread_local std::string_view current_;
  std::string_view outer_;
};

}  // namespace fourfold::comm
