// Sees what the nodes of a thread compute, layer by layer: to find the layer whose numbers are
// wrong first, and for tests that interfere. While nobody watches, a node costs as much as without
// this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "fourfold/tensor/tensor.hpp"

namespace fourfold::tensor {

/// Watches the thread that makes it, as long as it lives. Watches of a thread are destroyed in the
/// reverse order of their creation; an older one sees everything before a newer one does.
class NodeWatch {
 public:
  NodeWatch() : outer_(innermost_) { innermost_ = this; }
  virtual ~NodeWatch() { innermost_ = outer_; }
  NodeWatch(const NodeWatch&) = delete;
  NodeWatch& operator=(const NodeWatch&) = delete;

  /// What the forward function of a node of this layer has returned. Placeholders are empty.
  virtual void results(std::string_view layer, const variable_list& results) = 0;
  /// What the backward function of a node has returned, which may have undefined tensors.
  virtual void gradients(std::string_view layer, const variable_list& gradients) = 0;
  /// A tensor whose row r is of sample (first_row + r) / rows_per_sample of the step; in the
  /// backward pass the gradient of such a tensor.
  virtual void rows(const Tensor& tensor, std::int64_t first_row, std::int64_t rows_per_sample) = 0;

  /// Calls `see` with all watches of this thread, the oldest first.
  template <class See>
  static void tell(const See& see) {
    if (innermost_ != nullptr) innermost_->tell_from_here(see);
  }
  static bool any() { return innermost_ != nullptr; }

 private:
  template <class See>
  void tell_from_here(const See& see) {
    if (outer_ != nullptr) outer_->tell_from_here(see);
    see(*this);
  }

  static inline thread_local NodeWatch* innermost_ = nullptr;
  NodeWatch* outer_;
};

/// Says which samples the rows of a tensor belong to (`NodeWatch::rows`): in the forward pass now,
/// and of the gradient in the backward pass. Models call it for the tensors between their blocks.
void show_rows(const Tensor& tensor, std::int64_t first_row, std::int64_t rows_per_sample);

}  // namespace fourfold::tensor
