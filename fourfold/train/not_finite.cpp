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

/// The place of this rank's first bad tensor in the order of a step: n parameters, the loss, n
/// gradients backwards; times two, and one more where the cause may be another rank. The largest
/// number if all is well here.
std::int64_t first_bad(const nn::Parameters& parameters, const optim::AdamW& optimizer,
                       double loss) {
  using Health = optim::AdamW::Health;
  const auto n = static_cast<std::int64_t>(parameters.size());
  for (std::int64_t i = 0; i < n; ++i) {
    if (!is_finite(parameters[static_cast<std::size_t>(i)]->value().detach())) return 2 * i;
  }
  if (!std::isfinite(loss)) return 2 * n;
  for (std::int64_t i = n - 1; i >= 0; --i) {
    const Health health = optimizer.gradient_health(*parameters[static_cast<std::size_t>(i)]);
    if (health == Health::kFinite) continue;
    return 2 * (2 * n - i) + (health == Health::kBadInOwnPart ? 1 : 0);
  }
  return std::numeric_limits<std::int64_t>::max();
}

std::string name_of(const nn::Parameters& parameters, std::int64_t place) {
  const auto n = static_cast<std::int64_t>(parameters.size());
  if (place == n) return "the loss";
  if (place < n) return "the parameter " + parameters[static_cast<std::size_t>(place)]->name();
  if (place > 2 * n) return "the norm of the gradients";  // each is finite, their squares are not
  return "the gradient of " + parameters[static_cast<std::size_t>(2 * n - place)]->name();
}

}  // namespace

void throw_not_finite(const tensor::Mesh& mesh, const nn::Parameters& parameters,
                      const optim::AdamW& optimizer, std::int64_t step, double loss) {
  const std::int64_t own = first_bad(parameters, optimizer, loss);
  std::vector<std::int64_t> all(static_cast<std::size_t>(mesh.everyone().size()), own);
  if (all.size() > 1) {
    mesh.everyone()
        .all_gather({&own, 1, schedule::DType::kI64},
                    {all.data(), static_cast<std::int64_t>(all.size()), schedule::DType::kI64})
        .wait();
  }
  const auto worst = std::min_element(all.begin(), all.end());
  throw Error(concat("step ", step, ": ", name_of(parameters, *worst / 2),
                     " is not finite on rank ", worst - all.begin(),
                     "; nothing was updated. Try a smaller optim.lr, a longer optim.warmup, or "
                     "clipping (optim.clip)"));
}

}  // namespace fourfold::train
