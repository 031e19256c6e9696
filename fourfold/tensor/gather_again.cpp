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
  // The one that was passed before it: of the same graph, or, where that begins, of an older one
  // that is still to come and only early.
  if (ahead_ && own != inputs_.begin()) std::prev(own)->lock()->start();
  inputs_.erase(own);
}

}  // namespace fourfold::tensor
