// The layer for which a thread computes and communicates; schedules and timelines name it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace fourfold::comm {

/// While this object lives, everything that the thread computes and issues belongs to `layer`. The
/// text of `layer` must live as long; an empty text means no layer. The cost is two words, whether
/// or not anything is recorded. The object must not be alive across a co_await, since other layers
/// run meanwhile.
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
