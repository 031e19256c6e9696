// Numbers of all ranks together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::train {

/// The largest of each number that any rank has. Collective, as all of these.
std::vector<double> largest(const tensor::Mesh& mesh, std::vector<double> numbers);
inline double largest(const tensor::Mesh& mesh, double number) {
  return largest(mesh, std::vector<double>{number})[0];
}

/// What products of that type reach, of all ranks together, measured at once, as in training: they
/// share the machine.
FlopsPerSecond measure_gemm_rate(const tensor::Mesh& mesh, at::ScalarType type);

}  // namespace fourfold::train
