// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/pass.hpp"

#include "fourfold/base/check.hpp"

namespace fourfold::nn {

void Pass::gather(const Vectors& vectors) {
  if (vectors.parameters().empty()) return;
  if (gathered_.contains(vectors.parameters().front().get())) return;
  take(vectors, vectors.gather(*in_flight_));
}

void Pass::take(const Vectors& vectors, const std::vector<Tensor>& gathered) {
  const Parameters& parameters = vectors.parameters();
  FOURFOLD_CHECK_EQ(parameters.size(), gathered.size(), "gathered vectors");
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    FOURFOLD_CHECK_EQ(gathered[i].numel(), parameters[i]->rows(), parameters[i]->name());
    gathered_.emplace(parameters[i].get(), gathered[i]);
  }
}

Tensor Pass::vector(const ParameterPtr& parameter) const {
  if (!parameter) return {};
  const auto found = gathered_.find(parameter.get());
  if (found != gathered_.end()) return found->second;
  throw InvariantError(parameter->name() +
                       " has not been gathered in this pass; call Pass::gather with the Vectors "
                       "that it is one of");
}

}  // namespace fourfold::nn
