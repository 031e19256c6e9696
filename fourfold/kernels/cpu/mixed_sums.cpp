// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <ATen/ops/zeros.h>

#include "fourfold/base/check.hpp"
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

template <class S, class P>
struct AddTo {
  [[gnu::always_inline]] static inline void run(S* sum, std::int64_t sum_step, const P* part,
                                                std::int64_t part_step, std::int64_t rows,
                                                std::int64_t n) {
    for (std::int64_t r = 0; r < rows; ++r, sum += sum_step, part += part_step) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) sum[i] = narrow<S>(widen(sum[i]) + widen(part[i]));
    }
  }
};

template <class T>
struct ColumnSums {
  [[gnu::always_inline]] static inline void run(const T* matrix, Wide<T>* sums, std::int64_t rows,
                                                std::int64_t n) {
    // Four rows are added at once, so that the sums are read and written a quarter as often.
    std::int64_t r = 0;
    for (; r + 4 <= rows; r += 4, matrix += 4 * n) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) {
        sums[i] += (widen(matrix[i]) + widen(matrix[n + i])) +
                   (widen(matrix[2 * n + i]) + widen(matrix[3 * n + i]));
      }
    }
    for (; r < rows; ++r, matrix += n) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) sums[i] += widen(matrix[i]);
    }
  }
};

/// The layout of a tensor in memory: rows of equal length, a step apart.
struct Rows {
  explicit Rows(const Tensor& tensor) {
    if (tensor.is_contiguous()) {
      length = step = tensor.numel();
      return;
    }
    FOURFOLD_CHECK(tensor.dim() == 2 && tensor.stride(1) == 1);
    count = tensor.size(0);
    length = tensor.size(1);
    step = tensor.stride(0);
  }
  std::int64_t count = 1;
  std::int64_t length = 0;
  std::int64_t step = 0;
};

}  // namespace

void add_to(const Tensor& sum, const Tensor& part) {
  Rows to(sum);
  Rows from(part);
  if (to.count != from.count) {
    const bool split_to = to.count == 1;
    Rows& whole = split_to ? to : from;
    whole = split_to ? from : to;
    whole.step = whole.length;
  }
  dispatch(sum, [&]<class S>(S) {
    dispatch(part, [&]<class P>(P) {
      if constexpr (std::is_same_v<S, double> == std::is_same_v<P, double>) {
        run_vectorised<AddTo<S, P>>(elements<S>(sum), to.step, elements<const P>(part), from.step,
                                    to.count, to.length);
      } else {
        throw InvariantError("a sum of double and a narrower type");
      }
    });
  });
}

void add_to_rows_of(const Tensor& matrix, const Tensor& vector) {
  dispatch(matrix, [&]<class T>(T) {
    run_vectorised<AddTo<T, Wide<T>>>(elements<T>(matrix), matrix.size(1),
                                      elements<const Wide<T>>(vector), std::int64_t{0},
                                      matrix.size(0), matrix.size(1));
  });
}

Tensor column_sums(const Tensor& matrix) {
  const auto options = matrix.options().dtype(statistics_type(matrix.scalar_type()));
  Tensor sums = at::zeros({matrix.size(1)}, options);
  // Loops over narrow rows end before they are at full speed: several rows are one for them.
  constexpr std::int64_t kWide = 512;
  const std::int64_t columns = matrix.size(1);
  std::int64_t rows = matrix.size(0);
  std::int64_t width = columns;
  for (; 2 * width <= kWide && rows > 0 && rows % 2 == 0; rows /= 2) width *= 2;
  dispatch(matrix, [&]<class T>(T) {
    std::vector<Wide<T>> wide(static_cast<std::size_t>(width), Wide<T>{0});
    run_vectorised<ColumnSums<T>>(elements<const T>(matrix), wide.data(), rows, width);
    auto* result = elements<Wide<T>>(sums);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      result[static_cast<std::int64_t>(i) % columns] += wide[i];
    }
  });
  return sums;
}

}  // namespace fourfold::kernels::cpu
