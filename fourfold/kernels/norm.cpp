// SPDX-License-Identifier: Apache-2.0
#include "fourfold/kernels/norm.hpp"

#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels {

void norm_statistics(const Tensor& x, Tensor& stats) {
  if (x.is_meta()) return;
  functions_of(x).norm_statistics(x, stats);
}

void norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& scale,
                const Tensor& shift, Tensor& y) {
  if (x.is_meta()) return;
  functions_of(x).norm_apply(x, mean, rstd, scale, shift, y);
}

void norm_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& scale, Tensor& sums, Tensor& dscale, Tensor& dshift) {
  if (x.is_meta()) return;
  functions_of(x).norm_backward_sums(dy, x, mean, rstd, scale, sums, dscale, dshift);
}

void norm_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                         const Tensor& scale, const Tensor& sums, std::int64_t width, Tensor& dx) {
  if (x.is_meta()) return;
  functions_of(x).norm_backward_apply(dy, x, mean, rstd, scale, sums, width, dx);
}

void norm_whole(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                Tensor& stats, Tensor& y) {
  if (x.is_meta()) return;
  functions_of(x).norm_whole(x, scale, shift, epsilon, stats, y);
}

void norm_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& stats,
                         const Tensor& scale, Tensor& dscale, Tensor& dshift, Tensor& dx) {
  if (x.is_meta()) return;
  functions_of(x).norm_backward_whole(dy, x, stats, scale, dscale, dshift, dx);
}

void rms_statistics(const Tensor& x, Tensor& squares) {
  if (x.is_meta()) return;
  functions_of(x).rms_statistics(x, squares);
}

void rms_apply(const Tensor& x, const Tensor& squares, std::int64_t width, double epsilon,
               const Tensor& scale, Tensor& rstd, Tensor& y) {
  if (x.is_meta()) return;
  functions_of(x).rms_apply(x, squares, width, epsilon, scale, rstd, y);
}

void rms_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                       Tensor& sums, Tensor& dscale) {
  if (x.is_meta()) return;
  functions_of(x).rms_backward_sums(dy, x, rstd, scale, sums, dscale);
}

void rms_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        const Tensor& sums, std::int64_t width, Tensor& dx) {
  if (x.is_meta()) return;
  functions_of(x).rms_backward_apply(dy, x, rstd, scale, sums, width, dx);
}

void rms_whole(const Tensor& x, const Tensor& scale, double epsilon, Tensor& rstd, Tensor& y) {
  if (x.is_meta()) return;
  functions_of(x).rms_whole(x, scale, epsilon, rstd, y);
}

void rms_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        Tensor& dscale, Tensor& dx) {
  if (x.is_meta()) return;
  functions_of(x).rms_backward_whole(dy, x, rstd, scale, dscale, dx);
}

}  // namespace fourfold::kernels
