// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/noise.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

namespace {

void check_drawn_type(const Tensor& tensor) {
  FOURFOLD_CHECK(tensor.scalar_type() == at::kDouble || tensor.scalar_type() == at::kFloat,
                 "noise is drawn in float or double");
}

}  // namespace

void fill_noise(const Tensor& noise, std::int64_t first, Key key) {
  FOURFOLD_CHECK(noise.is_contiguous() && noise.dim() > 0);
  if (noise.is_meta()) return;
  check_drawn_type(noise);
  functions_of(noise).fill_noise(noise, first, key);
}

void mix_noise(const Tensor& images, const Tensor& out, std::int64_t first, Key key,
               std::span<const double> signal, std::span<const double> noise) {
  FOURFOLD_CHECK(images.is_contiguous() && out.is_contiguous() && images.sizes() == out.sizes());
  if (images.is_meta()) return;
  FOURFOLD_CHECK_EQ(static_cast<std::int64_t>(signal.size()), images.size(0));
  FOURFOLD_CHECK_EQ(static_cast<std::int64_t>(noise.size()), images.size(0));
  check_drawn_type(images);
  functions_of(images).mix_noise(images, out, first, key, signal, noise);
}

}  // namespace fourfold::kernels
