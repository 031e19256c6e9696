// Kernels made of libtorch's operations against the tuned ones.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "tests/kernels/cases.hpp"
#include "tests/support/every_way.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;

/// The results of a case in every way to choose kernels, with the same random numbers.
std::vector<std::vector<Tensor>> results_of(const KernelCase& one, at::ScalarType type) {
  std::vector<std::vector<Tensor>> results;
  in_every_way(Choice::kKernels, [&](int) {
    at::manual_seed(5);
    results.push_back(one.run(type));
  });
  return results;
}

/// Of the largest element. bf16 may be rounded to the other neighbour.
double tolerance_of(at::ScalarType type) {
  return type == at::kDouble ? 1e-13 : type == at::kFloat ? 1e-5 : 0x1p-7;
}

TEST(WaysOfKernels, Agree) {
  for (const KernelCase& one : kernel_cases()) {
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(one.name + " in " + c10::toString(type));
      const auto results = results_of(one, type);
      ASSERT_EQ(results.size(), 2U);
      for (std::size_t i = 0; i < results[0].size(); ++i) {
        ASSERT_EQ(results[1][i].scalar_type(), results[0][i].scalar_type());
        EXPECT_LE(relative_error(results[1][i], results[0][i]), tolerance_of(type))
            << "result " << i;
      }
    }
  }
}

/// Otherwise the other tests here would compare a way with itself.
TEST(WaysOfKernels, AreNotTheSame) {
  int different = 0;
  for (const KernelCase& one : kernel_cases()) {
    const auto results = results_of(one, at::kFloat);
    bool equal = true;
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      equal = equal && results[1][i].equal(results[0][i]);
    }
    different += equal ? 0 : 1;
  }
  EXPECT_GE(different, 10) << "of " << kernel_cases().size() << " are rounded differently";
}

/// Also the sign of zero.
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.equal(b) && a.signbit().equal(b.signbit());
}

TEST(WaysOfKernels, RandomNumbersAndCopiesHaveTheSameBits) {
  for (const KernelCase& one : exact_kernel_cases()) {
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(one.name + " in " + c10::toString(type));
      const auto results = results_of(one, type);
      for (std::size_t i = 0; i < results[0].size(); ++i) {
        EXPECT_TRUE(same_bits(results[1][i], results[0][i])) << "result " << i;
      }
    }
  }
}

}  // namespace
}  // namespace fourfold::test
