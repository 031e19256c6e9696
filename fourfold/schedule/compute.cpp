// SPDX-License-Identifier: Apache-2.0
#include "fourfold/schedule/compute.hpp"

#include <ostream>

#include "fourfold/base/text.hpp"

namespace fourfold::schedule {

std::string_view to_string(Work work) {
  constexpr std::array<std::string_view, kAllWorks.size()> kNames = {"product", "attention",
                                                                     "memory", "optimizer"};
  return kNames[static_cast<std::size_t>(work)];
}

std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, kAllPhases.size()> kNames = {"forward", "recompute",
                                                                      "backward", "update"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::ostream& operator<<(std::ostream& out, Work work) {
  return out << to_string(work);
}
std::ostream& operator<<(std::ostream& out, Phase phase) {
  return out << to_string(phase);
}

Arithmetic product_of(const Extent& extent, DType dtype, Bytes bytes) {
  const double flops = 2.0 * static_cast<double>(extent.m) * static_cast<double>(extent.k) *
                       static_cast<double>(extent.n);
  return {.work = Work::kProduct,
          .dtype = dtype,
          .extent = extent,
          .flops = Flops(flops),
          .bytes = bytes};
}

std::string to_string(const Compute& compute) {
  const Arithmetic& a = compute.arithmetic;
  std::string text = compute.layer;
  if (!text.empty()) text += " ";
  text += concat(compute.name, " (", compute.phase, ", ", a.work, " ");
  if (a.extent != Extent()) text += concat(a.extent.m, " x ", a.extent.k, " x ", a.extent.n, " ");
  return text + concat(a.dtype, a.widened ? " for bf16" : "", "): ", a.flops, ", ", a.bytes);
}

}  // namespace fourfold::schedule
