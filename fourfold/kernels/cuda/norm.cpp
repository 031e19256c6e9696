// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <ATen/ops/empty.h>

#include "fourfold/kernels/both/norm_rows.hpp"
#include "fourfold/kernels/cuda/functions.hpp"
#include "fourfold/kernels/cuda/run.hpp"
#include "fourfold/kernels/elements.hpp"

namespace fourfold::kernels::cuda {

namespace {

using both::Norm;

/// What layer norm has and RMS norm has not.
template <class A>
constexpr A* kNone = nullptr;

/// The elements of a tensor, or null if there is none.
template <class A>
A* elements_or_null(const Tensor& tensor) {
  return tensor.defined() ? elements<A>(tensor) : nullptr;
}

/// Enough parts to keep a GPU busy, and few enough to be summed quickly.
std::int64_t rows_of_part(std::int64_t rows) {
  constexpr std::int64_t kFewest = 32;
  constexpr std::int64_t kParts = 128;
  return std::max(kFewest, (rows + kParts - 1) / kParts);
}

/// Adds to the gradients of scale and shift; RMS norm has no mean and no shift.
template <class T>
void add_column_sums(const Tensor& dy, const Tensor& x, const Wide<T>* mean, const Tensor& rstd,
                     const Tensor& dscale, const Tensor& dshift) {
  using A = Wide<T>;
  both::ColumnSums<T> sums{.dy = elements<const T>(dy),
                           .x = elements<const T>(x),
                           .mean = mean,
                           .rstd = elements<const A>(rstd),
                           .rows = x.size(0),
                           .n = x.size(1),
                           .rows_of_part = rows_of_part(x.size(0)),
                           .parts = nullptr};
  const Tensor parts = at::empty({2, sums.parts_count(), x.size(1)}, dscale.options());
  sums.parts = elements<A>(parts);
  run_elements_on(x, sums);
  run_elements_on(x, both::AddParts<A>{.parts = sums.parts,
                                       .parts_count = sums.parts_count(),
                                       .n = x.size(1),
                                       .dscale = elements<A>(dscale),
                                       .dshift = elements_or_null<A>(dshift)});
}

template <Norm kNorm, class T>
void run_backward_apply(const Tensor& dy, const Tensor& x, const Wide<T>* mean, const Tensor& rstd,
                        const Tensor& scale, const Wide<T>* first, const Wide<T>* second,
                        std::int64_t width, const Tensor& dx) {
  run_rows_on(x, both::BackwardApply<kNorm, T>{.dy = elements<const T>(dy),
                                               .x = elements<const T>(x),
                                               .mean = mean,
                                               .rstd = elements<const Wide<T>>(rstd),
                                               .scale = elements<const Wide<T>>(scale),
                                               .first = first,
                                               .second = second,
                                               .width = static_cast<Wide<T>>(width),
                                               .dx = elements<T>(dx),
                                               .n = x.size(1),
                                               .rows = x.size(0)});
}

/// The second number of each row, of two for each row.
Tensor second_of(const Tensor& two, const Tensor& x) {
  return two.view({2, x.size(0)}).select(0, 1);
}

}  // namespace

// --- layer norm

void norm_statistics(const Tensor& x, Tensor& stats) {
  dispatch(x, [&]<class T>(T) {
    auto* mean = elements<Wide<T>>(stats);
    run_rows_on(x, both::Statistics<Norm::kLayer, T>{elements<const T>(x), mean, mean + x.size(0),
                                                     x.size(1), x.size(0)});
  });
}

void norm_apply(const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& scale,
                const Tensor& shift, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    using A = const Wide<T>;
    run_rows_on(
        x, both::Apply<Norm::kLayer, T>{elements<const T>(x), elements<A>(mean), elements<A>(rstd),
                                        elements<A>(scale), elements<A>(shift), elements<T>(y),
                                        x.size(1), x.size(0)});
  });
}

void norm_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                        const Tensor& scale, Tensor& sums, Tensor& dscale, Tensor& dshift) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    auto* first = elements<A>(sums);
    run_rows_on(x, both::BackwardSums<Norm::kLayer, T>{
                       elements<const T>(dy), elements<const T>(x), elements<const A>(mean),
                       elements<const A>(rstd), elements<const A>(scale), first, first + x.size(0),
                       x.size(1), x.size(0)});
    add_column_sums<T>(dy, x, elements<const A>(mean), rstd, dscale, dshift);
  });
}

void norm_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                         const Tensor& scale, const Tensor& sums, std::int64_t width, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    using A = const Wide<T>;
    auto* first = elements<A>(sums);
    run_backward_apply<Norm::kLayer, T>(dy, x, elements<A>(mean), rstd, scale, first,
                                        first + x.size(0), width, dx);
  });
}

void norm_whole(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                Tensor& stats, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    auto* mean = elements<A>(stats);
    run_rows_on(x, both::WholeRows<Norm::kLayer, T>{elements<const T>(x), elements<const A>(scale),
                                                    elements<const A>(shift),
                                                    static_cast<A>(epsilon), mean, mean + x.size(0),
                                                    elements<T>(y), x.size(1), x.size(0)});
  });
}

void norm_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& stats,
                         const Tensor& scale, Tensor& dscale, Tensor& dshift, Tensor& dx) {
  const Tensor rstd = second_of(stats, x);
  dispatch(x, [&]<class T>(T) {
    using A = const Wide<T>;
    auto* mean = elements<A>(stats);
    add_column_sums<T>(dy, x, mean, rstd, dscale, dshift);
    run_backward_apply<Norm::kLayer, T>(dy, x, mean, rstd, scale, kNone<A>, kNone<A>, x.size(1),
                                        dx);
  });
}

// --- RMS norm

void rms_statistics(const Tensor& x, Tensor& squares) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_rows_on(x, both::Statistics<Norm::kRms, T>{elements<const T>(x), kNone<A>,
                                                   elements<A>(squares), x.size(1), x.size(0)});
  });
}

void rms_apply(const Tensor& x, const Tensor& squares, std::int64_t width, double epsilon,
               const Tensor& scale, Tensor& rstd, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_rows_on(x, both::ApplyRms<T>{elements<const T>(x), elements<const A>(squares),
                                     static_cast<A>(width), static_cast<A>(epsilon),
                                     elements<const A>(scale), elements<A>(rstd), elements<T>(y),
                                     x.size(1), x.size(0)});
  });
}

void rms_backward_sums(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                       Tensor& sums, Tensor& dscale) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_rows_on(x, both::BackwardSums<Norm::kRms, T>{elements<const T>(dy), elements<const T>(x),
                                                     kNone<const A>, elements<const A>(rstd),
                                                     elements<const A>(scale), kNone<A>,
                                                     elements<A>(sums), x.size(1), x.size(0)});
    add_column_sums<T>(dy, x, kNone<const A>, rstd, dscale, {});
  });
}

void rms_backward_apply(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        const Tensor& sums, std::int64_t width, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    using A = const Wide<T>;
    run_backward_apply<Norm::kRms, T>(dy, x, kNone<A>, rstd, scale, kNone<A>, elements<A>(sums),
                                      width, dx);
  });
}

void rms_whole(const Tensor& x, const Tensor& scale, double epsilon, Tensor& rstd, Tensor& y) {
  dispatch(x, [&]<class T>(T) {
    using A = Wide<T>;
    run_rows_on(
        x, both::WholeRows<Norm::kRms, T>{elements<const T>(x), elements<const A>(scale),
                                          kNone<const A>, static_cast<A>(epsilon), kNone<A>,
                                          elements<A>(rstd), elements<T>(y), x.size(1), x.size(0)});
  });
}

void rms_backward_whole(const Tensor& dy, const Tensor& x, const Tensor& rstd, const Tensor& scale,
                        Tensor& dscale, Tensor& dx) {
  dispatch(x, [&]<class T>(T) {
    using A = const Wide<T>;
    add_column_sums<T>(dy, x, kNone<A>, rstd, dscale, {});
    run_backward_apply<Norm::kRms, T>(dy, x, kNone<A>, rstd, scale, kNone<A>, kNone<A>, x.size(1),
                                      dx);
  });
}

}  // namespace fourfold::kernels::cuda
