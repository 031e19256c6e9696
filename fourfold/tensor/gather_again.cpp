// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/gather_again.hpp"

#include <algorithm>
#include <iterator>

namespace fourfold::tensor {

void GatherAgain::reached(Input& input) {
  input.start();
  std::erase_if(inputs_, [](const std::weak_ptr<Input>& other) { return other.expired(); });
  const auto own = std::find_if(inputs_.begin(), inputs_.end(),
                                [&](const auto& other) { return other.lock().get() == &input; });
  if (own == inputs_.end()) return;
  // The input that the forward pass used before this one. It belongs to the same graph or, for the
  // first input of the graph, to an older graph whose backward pass is still to come; then the
  // start is only early.
  if (ahead_ && own != inputs_.begin()) std::prev(own)->lock()->start();
  inputs_.erase(own);
}

}  // namespace fourfold::tensor
