// Layer norm, and RMS norm, which is the same without mean and shift.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/sub.h>

#include "fourfold/kernels/aten/wide.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::aten {

namespace {

/// The first or the second number of each row, of two for each row.
Tensor number(const Tensor& two, std::int64_t index) {
  return two.view({2, -1}).select(0, index);
}

/// (x - mean) * rstd, in a type of at least float. RMS norm has no mean.
Tensor normalised(const Tensor& x, const Tensor& mean, const Tensor& rstd) {
  if (!mean.defined()) return wide(x).mul(column(rstd));
  return at::sub(wide(x), column(mean)).mul_(column(rstd));
}

/// 1 / the root of the mean square.
Tensor inverse_root(const Tensor& squares, std::int64_t width, double epsilon) {
  return squares.div(static_cast<double>(width)).add_(epsilon).rsqrt_();
}

/// What the gradient of the rows consists of: n and g.
struct Upstream {
  Upstream(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
           const Tensor& scale)
      : gradient(wide(dy)),
        normal(normalised(x, mean, rstd)),
        scaled(gradient.mul(scale.view({1, -1}))) {}
  Tensor gradient;
  Tensor normal;
  Tensor scaled;

  Tensor sums() const { return scaled.sum(1); }
  Tensor products() const { return scaled.mul(normal).sum(1); }
  void add_to_scale(Tensor& dscale) const { dscale.view({-1}).add_(gradient.mul(normal).sum(0)); }
  void add_to_shift(Tensor& dshift) const { dshift.view({-1}).add_(gradient.sum(0)); }

  /// rstd * (g - sums / width - n * products / width); without sums if there are none.
  Tensor result(const Tensor& rstd, const Tensor& sums, const Tensor& products,
                std::int64_t width) const {
    const auto n = static_cast<double>(width);
    Tensor inner = scaled.sub(normal.mul(column(products.div(n))));
    if (sums.defined()) inner.sub_(column(sums.div(n)));
    return inner.mul_(column(rstd));
  }
};

}  // namespace

// --- layer norm

void norm_statistics(const Tensor& x, Tensor& stats) {
  const NoGraph guard;
  const Tensor values = wide(x);
  const Tensor mean = values.mean(1);
  number(stats, 0).copy_(mean);
  number(stats, 1).copy_(at::sub(values, column(mean)).square_().sum(1));
}

void norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& scale,
                const Tensor& shift, Tensor& y) {
  const NoGraph guard;
  y.copy_(normalised(x, mean, rstd).mul_(scale.view({1, -1})).add_(shift.view({1, -1})));
}

void norm_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& scale, Tensor& sums, Tensor& dscale, Tensor& dshift) {
  const NoGraph guard;
  const Upstream upstream(dy, x, mean, rstd, scale);
  number(sums, 0).copy_(upstream.sums());
  number(sums, 1).copy_(upstream.products());
  upstream.add_to_scale(dscale);
  upstream.add_to_shift(dshift);
}

void norm_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                         const Tensor& scale, const Tensor& sums, std::int64_t width, Tensor& dx) {
  const NoGraph guard;
  const Upstream upstream(dy, x, mean, rstd, scale);
  dx.copy_(upstream.result(rstd, number(sums, 0), number(sums, 1), width));
}

void norm_whole(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                Tensor& stats, Tensor& y) {
  const NoGraph guard;
  aten::norm_statistics(x, stats);
  const Tensor rstd = number(stats, 1);
  rstd.copy_(inverse_root(rstd, x.size(1), epsilon));
  aten::norm_apply(x, number(stats, 0), rstd, scale, shift, y);
}

void norm_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& stats,
                         const Tensor& scale, Tensor& dscale, Tensor& dshift, Tensor& dx) {
  const NoGraph guard;
  const Tensor rstd = number(stats, 1);
  const Upstream upstream(dy, x, number(stats, 0), rstd, scale);
  upstream.add_to_scale(dscale);
  upstream.add_to_shift(dshift);
  dx.copy_(upstream.result(rstd, upstream.sums(), upstream.products(), x.size(1)));
}

// --- RMS norm

void rms_statistics(const Tensor& x, Tensor& squares) {
  const NoGraph guard;
  squares.view({-1}).copy_(wide(x).square().sum(1));
}

void rms_apply(const Tensor& x, const Tensor& squares, std::int64_t width, double epsilon,
               const Tensor& scale, Tensor& rstd, Tensor& y) {
  const NoGraph guard;
  rstd.copy_(inverse_root(squares, width, epsilon).view_as(rstd));
  y.copy_(normalised(x, {}, rstd).mul_(scale.view({1, -1})));
}

void rms_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                       Tensor& sums, Tensor& dscale) {
  const NoGraph guard;
  const Upstream upstream(dy, x, {}, rstd, scale);
  sums.view({-1}).copy_(upstream.products());
  upstream.add_to_scale(dscale);
}

void rms_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        const Tensor& sums, std::int64_t width, Tensor& dx) {
  const NoGraph guard;
  const Upstream upstream(dy, x, {}, rstd, scale);
  dx.copy_(upstream.result(rstd, {}, sums, width));
}

void rms_whole(const Tensor& x, const Tensor& scale, double epsilon, Tensor& rstd, Tensor& y) {
  const NoGraph guard;
  aten::rms_statistics(x, rstd);
  aten::rms_apply(x, rstd, x.size(1), epsilon, scale, rstd, y);
}

void rms_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        Tensor& dscale, Tensor& dx) {
  const NoGraph guard;
  const Upstream upstream(dy, x, {}, rstd, scale);
  upstream.add_to_scale(dscale);
  dx.copy_(upstream.result(rstd, {}, upstream.products(), x.size(1)));
}

}  // namespace fourfold::kernels::aten
