// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/all_ranks.hpp"

#include "fourfold/tensor/dtype.hpp"
#include "fourfold/tensor/gemm_rate.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::train {

std::vector<double> largest(const tensor::Mesh& mesh, std::vector<double> numbers) {
  if (mesh.everyone().size() > 1) {
    mesh.everyone()
        .all_reduce(
            {numbers.data(), static_cast<std::int64_t>(numbers.size()), schedule::DType::kF64},
            comm::ReduceOp::kMax)
        .wait();
  }
  return numbers;
}

FlopsPerSecond measure_gemm_rate(const tensor::Mesh& mesh, at::ScalarType type) {
  if (mesh.everyone().size() > 1) mesh.everyone().barrier().wait();
  const comm::LongWork long_work = mesh.world().long_work("measuring products");
  const tensor::MemoryMeter aside;  // the measurement is not part of training
  const tensor::MemoryMeter::Counting counting(aside);
  // A GPU reaches its rate with larger products.
  const int size = mesh.device().is_cuda() ? 8192 : 2048;
  double rate = tensor::gemm_rate(tensor::dtype_of(type), size, 6, mesh.device()).value();
  if (mesh.everyone().size() > 1) {
    mesh.everyone().all_reduce({&rate, 1, schedule::DType::kF64}).wait();
  }
  return FlopsPerSecond(rate);
}

}  // namespace fourfold::train
