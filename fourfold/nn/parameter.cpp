// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/parameter.hpp"

#include <map>

#include "fourfold/base/check.hpp"

namespace fourfold::nn {

using tensor::Purpose;

Parameter::Parameter(const Mesh& mesh, ParameterSpec spec, const Precision& precision,
                     std::uint64_t seed)
    : shard_(mesh, std::move(spec), precision, seed),
      gathering_(shard_),
      collector_(*this, shard_, gathering_) {
  // The optimizer sums gradients over the replicas, and gathers new values.
  mesh.join(shard_.spec().replicas, Purpose::kGradients);
  mesh.join(shard_.spec().replicas, Purpose::kWeights);
}

void check_parameters(const Mesh& mesh, const Parameters& parameters, const char* who) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::size_t place = i + 1;
    if (!parameters[i]) {
      throw InvariantError(concat(who, ": number ", place, " of ", parameters.size(),
                                  " parameters is null; a layer without a bias has none"));
    }
    const Parameter& parameter = *parameters[i];
    if (&parameter.mesh() != &mesh) {
      throw InvariantError(concat(who, ": ", parameter.name(), " is on another mesh"));
    }
    const auto [found, first] = places.emplace(parameter.name(), place);
    if (first) continue;
    const bool same = parameters[found->second - 1] == parameters[i];
    throw InvariantError(
        concat(who, ": number ", found->second, " and number ", place,
               same ? " of the parameters are the same, " : " are two parameters of one name, ",
               parameter.name()));
  }
}

}  // namespace fourfold::nn
