// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/not_finite.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ops/isfinite.h>

#include "fourfold/base/check.hpp"

namespace fourfold::train {

namespace {

bool is_finite(const at::Tensor& tensor) {
  return tensor.isfinite().all().item<bool>();
}

/// The names of all parameters of the model in the order of use, and the parameters of this rank,
/// null for the others.
struct Listed {
  std::vector<std::string> names;
  nn::Parameters here;
};

Listed listed(const tensor::Mesh& mesh, const model::Stages& stages) {
  Listed list;
  const nn::Parameters own = stages.parameters();
  for (const model::Owned& owned : model::owners(mesh, stages)) {
    const auto found = std::find_if(own.begin(), own.end(), [&](const nn::ParameterPtr& p) {
      return p->name() == owned.spec.name;
    });
    list.names.push_back(owned.spec.name);
    list.here.push_back(found == own.end() ? nullptr : *found);
  }
  return list;
}

/// The place of this rank's first bad tensor in the order of a step: n parameters, the loss, n
/// gradients backwards. The place is multiplied by two, and one is added where another rank may be
/// the cause. If all tensors are finite here, it is the largest number.
std::int64_t first_bad(const nn::Parameters& parameters, const optim::AdamW& optimizer,
                       double loss) {
  using optim::Health;
  const auto n = static_cast<std::int64_t>(parameters.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const nn::ParameterPtr& p = parameters[static_cast<std::size_t>(i)];
    if (p) p->wait_for_values();
    if (p && !is_finite(p->value().detach())) return 2 * i;
  }
  if (!std::isfinite(loss)) return 2 * n;
  for (std::int64_t i = n - 1; i >= 0; --i) {
    const nn::ParameterPtr& p = parameters[static_cast<std::size_t>(i)];
    const Health health = p ? optimizer.gradient_health(*p) : Health::kFinite;
    if (health == Health::kFinite) continue;
    return 2 * (2 * n - i) + (health == Health::kBadInOwnPart ? 1 : 0);
  }
  return std::numeric_limits<std::int64_t>::max();
}

std::string name_of(const std::vector<std::string>& parameters, std::int64_t place) {
  const auto n = static_cast<std::int64_t>(parameters.size());
  if (place == n) return "the loss";
  if (place < n) return "the parameter " + parameters[static_cast<std::size_t>(place)];
  if (place > 2 * n) return "the norm of the gradients";  // each is finite, their squares are not
  return "the gradient of " + parameters[static_cast<std::size_t>(2 * n - place)];
}

}  // namespace

std::string describe(const NotFinite& found) {
  return concat(found.tensor, " is not finite on rank ", found.rank);
}

NotFinite find_not_finite(const tensor::Mesh& mesh, const model::Stages& stages,
                          const optim::AdamW& optimizer, double loss) {
  const Listed list = listed(mesh, stages);
  const std::int64_t own = first_bad(list.here, optimizer, loss);
  std::vector<std::int64_t> all(static_cast<std::size_t>(mesh.everyone().size()), own);
  if (all.size() > 1) {
    mesh.everyone()
        .all_gather({&own, 1, schedule::DType::kI64},
                    {all.data(), static_cast<std::int64_t>(all.size()), schedule::DType::kI64})
        .wait();
  }
  const auto worst = std::min_element(all.begin(), all.end());
  const std::int64_t place = *worst / 2;
  return {.place = place,
          .rank = static_cast<int>(worst - all.begin()),
          .tensor = name_of(list.names, place),
          .parameter = place < static_cast<std::int64_t>(list.names.size())};
}

}  // namespace fourfold::train
