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

void add_squares(const Tensor& values, const Tensor& sum) {
  FOURFOLD_CHECK(values.is_contiguous());
  FOURFOLD_CHECK(sum.numel() == 1 && sum.scalar_type() == at::kDouble);
  if (values.is_meta()) return;
  functions_of(values).add_squares(values, sum);
}

}  // namespace fourfold::kernels
