// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/replicas.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <span>

#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/first_text.hpp"
#include "fourfold/formats/checksum.hpp"
#include "fourfold/tensor/transfer.hpp"

namespace fourfold::train {

namespace {

std::int64_t checksum_of(const Tensor& on_device) {
  const Tensor values = tensor::download(on_device);
  const std::span bytes(static_cast<const std::byte*>(values.data_ptr()), values.nbytes());
  return std::bit_cast<std::int64_t>(formats::checksum_of(bytes));
}

/// The members whose value is not the one that most of them have; all if none is more common.
std::vector<int> others_of(const std::vector<std::int64_t>& values,
                           const std::vector<int>& members) {
  std::map<std::int64_t, int> counts;
  for (const std::int64_t value : values) ++counts[value];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool clear = 2 * most->second > static_cast<int>(values.size());
  std::vector<int> others;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!clear || values[i] != most->first) others.push_back(members[i]);
  }
  return others;
}

/// The same for the parameters with these replicas.
std::string difference_along(const tensor::Mesh& mesh, const grid::Axes& axes,
                             const nn::Parameters& parameters) {
  const comm::Communicator& group = mesh.comm(axes, tensor::Purpose::kWeights);
  const std::size_t count = parameters.size();
  const auto members = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> own;
  for (const nn::ParameterPtr& parameter : parameters) {
    parameter->wait_for_values();
    own.push_back(checksum_of(parameter->value().detach()));
  }
  std::vector<std::int64_t> all(count * members);
  group
      .all_gather({own.data(), static_cast<std::int64_t>(count), schedule::DType::kI64},
                  {all.data(), static_cast<std::int64_t>(all.size()), schedule::DType::kI64})
      .wait();
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::int64_t> values;
    for (std::size_t member = 0; member < members; ++member) {
      values.push_back(all[member * count + i]);
    }
    if (std::equal(values.begin() + 1, values.end(), values.begin())) continue;
    const std::vector<int> others = others_of(values, group.group().members);
    const bool one = others.size() == 1;
    return concat("the weights of ", parameters[i]->name(), " on ", one ? "rank " : "ranks ",
                  ranges(others), one ? " differ" : " differ from each other or", " from those of ",
                  one ? "the ranks that have the same ones" : "the others", " (",
                  join(group.group().members, " "), ")");
  }
  return "";
}

}  // namespace

std::string difference_of_replicas(const tensor::Mesh& mesh, const model::Stages& stages) {
  std::map<std::string, nn::Parameters> by_axes;
  for (const nn::ParameterPtr& parameter : stages.parameters()) {
    const grid::Axes& axes = parameter->spec().replicas;
    if (mesh.size(axes) > 1) by_axes[grid::to_string(axes)].push_back(parameter);
  }
  std::string found;
  for (const auto& [name, parameters] : by_axes) {
    const std::string here = difference_along(mesh, parameters[0]->spec().replicas, parameters);
    if (found.empty()) found = here;
  }
  return checkpoint::first_text(mesh.everyone(), found);
}

}  // namespace fourfold::train
