// Inputs that the forward pass brought together and gave back, and that the backward pass brings
// together again: one layer ahead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

namespace fourfold::tensor {

/// The backward pass comes to the layers in the reverse of the order in which the forward pass did.
/// Those of a graph that is thrown away go by themselves.
class GatherAgain {
 public:
  class Input {
   public:
    Input() = default;
    Input(const Input&) = delete;
    Input& operator=(const Input&) = delete;
    virtual ~Input() = default;
    /// Begins to bring it together; the second time it does nothing.
    virtual void start() = 0;
  };

  /// With `ahead` false each input starts when its own layer is reached.
  explicit GatherAgain(bool ahead) : ahead_(ahead) {}

  /// The forward pass has used it.
  void passed(const std::shared_ptr<Input>& input) { inputs_.push_back(input); }

  /// The backward pass has come to it: starts it, and the one that comes next.
  void reached(Input& input);

 private:
  bool ahead_;
  std::vector<std::weak_ptr<Input>> inputs_;
};

}  // namespace fourfold::tensor
