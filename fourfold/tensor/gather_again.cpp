// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/gather_again.hpp"

namespace fourfold::tensor {

void GatherAgain::reached(Input& input) {
  input.start();
  std::erase_if(inputs_, [&](const std::weak_ptr<Input>& other) {
    const auto alive = other.lock();
    return alive == nullptr || alive.get() == &input;
  });
  if (!ahead_ || inputs_.empty()) return;
  inputs_.back().lock()->start();
}

}  // namespace fourfold::tensor
