// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/adamw.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

void check_copy(const Tensor& copy, const Tensor& value) {
  FOURFOLD_CHECK(value.scalar_type() == at::kDouble || value.scalar_type() == at::kFloat,
                 "parameters are kept in float or double");
  const bool narrower = value.scalar_type() == at::kFloat && copy.scalar_type() == at::kBFloat16;
  FOURFOLD_CHECK(narrower || copy.is_same(value), "a copy is of another type");
}

}  // namespace

void adamw(const Tensor& value, const Tensor& gradient, const Tensor& mean, const Tensor& square,
           const Tensor& copy, const AdamStep& step, const Tensor& value_mean) {
  FOURFOLD_CHECK(value.is_contiguous() && gradient.is_contiguous() && mean.is_contiguous() &&
                 square.is_contiguous() && copy.is_contiguous());
  FOURFOLD_CHECK(value.numel() == copy.numel() && value.numel() == gradient.numel() &&
                 value.numel() == mean.numel() && value.numel() == square.numel());
  FOURFOLD_CHECK(!value_mean.defined() ||
                 (value_mean.is_contiguous() && value_mean.numel() == value.numel()));
  if (value.is_meta()) return;
  check_copy(copy, value);
  functions_of(value).adamw(value, gradient, mean, square, copy, step, value_mean);
}

void exchange(const Tensor& a, const Tensor& b, const Tensor& copy) {
  FOURFOLD_CHECK(a.is_contiguous() && b.is_contiguous() && copy.is_contiguous());
  FOURFOLD_CHECK(a.numel() == b.numel() && a.numel() == copy.numel());
  if (a.is_meta()) return;
  check_copy(copy, a);
  functions_of(a).exchange(a, b, copy);
}

double sum_of_squares(const Tensor& values) {
  FOURFOLD_CHECK(values.is_contiguous());
  if (values.is_meta()) return 0;
  return functions_of(values).sum_of_squares(values);
}

}  // namespace fourfold::kernels
