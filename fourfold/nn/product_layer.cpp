// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/product_layer.hpp"

#include "fourfold/nn/rows.hpp"

namespace fourfold::nn {

double ProductLayer::flops(const Batch& batch) const {
  const double weights = static_cast<double>(spec_.in) * static_cast<double>(spec_.out);
  return 2 * weights * static_cast<double>(batch.samples * batch.context);
}

}  // namespace fourfold::nn
