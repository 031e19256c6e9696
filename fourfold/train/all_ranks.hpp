// Numbers that are combined over all ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::train {

/// For each number, the largest value that any rank has. Collective, like all functions here.
std::vector<double> largest(const tensor::Mesh& mesh, std::vector<double> numbers);
inline double largest(const tensor::Mesh& mesh, double number) {
  return largest(mesh, std::vector<double>{number})[0];
}

/// The rate that products of that type reach on all ranks together. All ranks measure at the same
/// time, since they share the machine as in training.
FlopsPerSecond measure_gemm_rate(const tensor::Mesh& mesh, at::ScalarType type);

}  // namespace fourfold::train
