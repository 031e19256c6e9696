// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/layer.hpp"

#include <iterator>

namespace fourfold::nn {

Parameters Layer::parameters() const {
  Parameters all;
  for (const Item& item : declared_) {
    if (item.parameter) {
      all.push_back(item.parameter);
    } else {
      const Parameters more = item.part->parameters();
      all.insert(all.end(), more.begin(), more.end());
    }
  }
  return all;
}

namespace {

Parameters vectors_or_not(const Parameters& all, bool vectors) {
  Parameters some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [&](const ParameterPtr& one) { return (one->spec().shape.size() == 1) == vectors; });
  return some;
}

}  // namespace

Parameters Layer::vectors() const {
  return vectors_or_not(parameters(), true);
}

Parameters Layer::weights() const {
  return vectors_or_not(parameters(), false);
}

double Layer::flops(const Batch& batch) const {
  double sum = 0;
  for (const Item& item : declared_) {
    if (item.part != nullptr) sum += item.part->flops(batch);
  }
  return sum;
}

ParameterPtr Layer::declare(ParameterSpec spec, const Precision& precision, std::uint64_t seed) {
  auto parameter = std::make_shared<Parameter>(*mesh_, std::move(spec), precision, seed);
  declared_.push_back({parameter, nullptr});
  return parameter;
}

}  // namespace fourfold::nn
