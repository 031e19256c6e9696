// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/cluster.hpp"

#include <algorithm>
#include <cmath>

#include "fourfold/base/check.hpp"

namespace fourfold::cluster {

std::string_view to_string(Library library) {
  return library == Library::kNccl ? "nccl" : "fourfold";
}

std::string_view to_string(NcclAlgorithm algorithm) {
  switch (algorithm) {
    case NcclAlgorithm::kRing:
      return "ring";
    case NcclAlgorithm::kTree:
      return "tree";
    case NcclAlgorithm::kTwoLevel:
      return "two-level";
  }
  throw InvariantError("no such algorithm");
}

std::string_view to_string(Topology topology) {
  return topology == Topology::kMesh ? "mesh" : "switch";
}

FlopsPerSecond Device::peak(schedule::DType dtype) const {
  switch (dtype) {
    case schedule::DType::kBF16:
      return bf16;
    case schedule::DType::kF32:
      return f32;
    case schedule::DType::kF64:
    case schedule::DType::kI64:
      return f64;
  }
  throw InvariantError("no such type");
}

double Device::efficiency_of_product(std::int64_t m, std::int64_t k, std::int64_t n) const {
  FOURFOLD_CHECK(!product_efficiency.empty());
  const std::int64_t side = std::min({m, k, n});
  const auto& points = product_efficiency;
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const ProductPoint& point) { return point.side >= side; });
  if (above == points.end()) return points.back().efficiency;
  if (above == points.begin() || above->side == side) return above->efficiency;
  const ProductPoint& below = *(above - 1);
  const auto log = [](std::int64_t number) { return std::log(static_cast<double>(number)); };
  const double part = (log(side) - log(below.side)) / (log(above->side) - log(below.side));
  return below.efficiency + part * (above->efficiency - below.efficiency);
}

Bytes Device::usable() const {
  return Bytes(std::llround(static_cast<double>(memory.value()) * usable_memory));
}

}  // namespace fourfold::cluster
