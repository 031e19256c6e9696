// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "fourfold/kernels/cpu/exponential.hpp"
#include "fourfold/kernels/cpu/maximum.hpp"
#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

/// The row of a token in the table, or -1.
std::int64_t row_of(std::int64_t token, const grid::Range& here) {
  return token >= here.begin && token < here.end ? token - here.begin : -1;
}

/// Calls body(t, row) for every token t, where row is the token's row in the table, or -1.
template <class Body>
void for_each_row(const Tensor& tokens, const grid::Range& here, const Body& body) {
  const auto* ids = elements<const std::int64_t>(tokens);
  for (std::int64_t t = 0; t < tokens.numel(); ++t) body(t, row_of(ids[t], here));
}

template <class T>
struct AddRow {
  [[gnu::always_inline]] static inline void run(Wide<T>* sum, const T* gradient, std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) sum[i] += widen(gradient[i]);
  }
};

template <class T>
struct Maxima {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(const T* logits, std::int64_t valid,
                                                std::int64_t rows, std::int64_t n, A* largest) {
    for (std::int64_t r = 0; r < rows; ++r, logits += n) {
      largest[r] = largest_of(logits, valid, -std::numeric_limits<A>::infinity());
    }
  }
};

template <class T>
struct Exponentials {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(T* logits, std::int64_t valid, std::int64_t rows,
                                                std::int64_t n, const A* largest, A* sums) {
    for (std::int64_t r = 0; r < rows; ++r, logits += n) {
      const A shift = largest[r];
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < valid; ++i) {
        const A e = exponential(widen(logits[i]) - shift);
        logits[i] = narrow<T>(e);
        sum += e;
      }
      std::fill(logits + valid, logits + n, T{});
      sums[r] = sum;
    }
  }
};

template <class T>
struct Scale {
  using A = Wide<T>;
  [[gnu::always_inline]] static inline void run(T* values, std::int64_t rows, std::int64_t n,
                                                const A* sums, A weight) {
    for (std::int64_t r = 0; r < rows; ++r, values += n) {
      const A factor = weight / sums[r];
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) values[i] = narrow<T>(widen(values[i]) * factor);
    }
  }
};

}  // namespace

void lookup_rows(const Tensor& table, const Tensor& tokens, const grid::Range& here, Tensor& out) {
  const std::int64_t width = out.size(2);
  dispatch(table, [&]<class T>(T) {
    const auto* rows = elements<const T>(table);
    auto* chunk = elements<T>(out);
    for (std::int64_t c = 0; c < out.size(0); ++c, chunk += tokens.numel() * width) {
      for_each_row(tokens, here, [&](std::int64_t t, std::int64_t row) {
        T* to = chunk + t * width;
        if (row < 0) {
          std::fill(to, to + width, T{});
        } else {
          std::copy_n(rows + row * table.size(1) + c * width, width, to);
        }
      });
    }
  });
}

void add_to_rows(const Tensor& gradient, const Tensor& tokens, const grid::Range& here,
                 Tensor& sum) {
  const std::int64_t width = gradient.size(2);
  dispatch(gradient, [&]<class T>(T) {
    auto* rows = elements<Wide<T>>(sum);
    const auto* chunk = elements<const T>(gradient);
    for (std::int64_t c = 0; c < gradient.size(0); ++c, chunk += tokens.numel() * width) {
      for_each_row(tokens, here, [&](std::int64_t t, std::int64_t row) {
        if (row < 0) return;
        run_vectorised<AddRow<T>>(rows + row * sum.size(1) + c * width, chunk + t * width, width);
      });
    }
  });
}

void row_maxima(const Tensor& logits, std::int64_t valid, Tensor& largest) {
  dispatch(logits, [&]<class T>(T) {
    run_vectorised<Maxima<T>>(elements<const T>(logits), valid, logits.size(0), logits.size(1),
                              elements<Wide<T>>(largest));
  });
}

void exponentials(Tensor& logits, std::int64_t valid, const Tensor& largest, const Tensor& targets,
                  const grid::Range& here, Tensor& sums) {
  const std::int64_t rows = logits.size(0);
  dispatch(logits, [&]<class T>(T) {
    using A = Wide<T>;
    auto* values = elements<T>(logits);
    const auto* shift = elements<const A>(largest);
    auto* out = elements<A>(sums);
    for_each_row(targets, here, [&](std::int64_t r, std::int64_t column) {
      out[rows + r] = column < 0 ? A{} : widen(values[r * logits.size(1) + column]) - shift[r];
    });
    run_vectorised<Exponentials<T>>(values, valid, rows, logits.size(1), shift, out);
  });
}

void softmax_loss_gradient(Tensor& exponentials, const Tensor& sums, const Tensor& targets,
                           const grid::Range& here, double weight) {
  dispatch(exponentials, [&]<class T>(T) {
    using A = Wide<T>;
    auto* values = elements<T>(exponentials);
    const auto* totals = elements<const A>(sums);
    const std::int64_t rows = exponentials.size(0);
    const std::int64_t n = exponentials.size(1);
    run_vectorised<Scale<T>>(values, rows, n, totals, static_cast<A>(weight));
    for_each_row(targets, here, [&](std::int64_t r, std::int64_t column) {
      if (column < 0) return;
      // This uses numbers that are not rounded: for a likely target, p - 1 is a small difference.
      const A p = std::exp(totals[rows + r]) / totals[r];
      values[r * n + column] = narrow<T>(static_cast<A>(weight) * (p - 1));
    });
  });
}

}  // namespace fourfold::kernels::cpu
