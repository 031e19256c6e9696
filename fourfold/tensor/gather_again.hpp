// Inputs that the forward pass gathered and freed, and that the backward pass gathers again, one
// layer ahead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

namespace fourfold::tensor {

/// The backward pass visits the layers in the reverse order of the forward pass. Inputs of a graph
/// that is thrown away disappear by themselves.
class GatherAgain {
 public:
  class Input {
   public:
    Input() = default;
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;
    virtual ~Input() = default;
    /// Starts to gather the input. A second call does nothing.
    virtual void start() = 0;
  };

  /// If `ahead` is false, each input starts when the backward pass reaches its own layer.
  explicit GatherAgain(bool ahead) : ahead_(ahead) {}

  /// Says that the forward pass has used the input.
  void passed(const std::shared_ptr<Input>& input) { inputs_.push_back(input); }

  /// Says that the backward pass has reached the input. Starts this input and the one that comes
  /// next.
  void reached(Input& input);

 private:
  bool ahead_;
  std::vector<std::weak_ptr<Input>> inputs_;
};

}  // namespace fourfold::tensor
