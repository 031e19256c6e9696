// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "fourfold/kernels/cpu/simd.hpp"
#include "fourfold/kernels/functions.hpp"

namespace fourfold::kernels::cpu {

namespace {

template <class T>
struct Multiply {
  [[gnu::always_inline]] static inline void run(const T* in, const Wide<T>* mask, T* out,
                                                std::int64_t n) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = narrow<T>(widen(in[i]) * mask[i]);
  }
};

template <class Body>
void by_type(const Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kDouble) return body(double{});
  body(float{});
}

}  // namespace

void fill_normal(Tensor& shard, const grid::Shape& global, const grid::Block& block, Key key,
                 double deviation) {
  shard.zero_();
  if (deviation == 0) return;
  // Columns are those of the last dimension; a dimension between rows and columns is whole.
  const bool columned = shard.dim() > 1;
  const grid::Range columns = columned ? block.ranges.back() : grid::Range{0, 1};
  const std::int64_t between = shard.dim() == 3 ? global[1] : 1;
  const std::int64_t global_columns = columned ? global.back() : 1;
  const std::int64_t local_columns = columned ? shard.size(-1) : 1;
  by_type(shard, [&]<class T>(T) {
    auto* out = elements<T>(shard);
    const std::int64_t end = block.ranges[0].end * between;
    for (std::int64_t row = block.ranges[0].begin * between; row < end; ++row) {
      fill_normal_run(out, 0, row * global_columns + columns.begin, columns.size(), key, deviation);
      out += local_columns;
    }
  });
}

void fill_dropout_mask(Tensor& mask, const Window2& window, Key key, double p, double scale) {
  const std::int64_t columns = window.columns.size();
  dispatch(mask, [&]<class T>(T) {
    std::vector<Wide<T>> drawn(static_cast<std::size_t>(columns));
    auto* out = elements<T>(mask);
    for (std::int64_t row = window.rows.begin; row < window.rows.end; ++row) {
      fill_dropout_run(drawn.data(), row, window.columns.begin, columns, key, p, scale);
      for (const Wide<T> value : drawn) *out++ = narrow<T>(value);
    }
  });
}

void apply_dropout(const Tensor& in, Tensor& out, const Window2& window, Key key, double p) {
  const std::int64_t columns = window.columns.size();
  dispatch(in, [&]<class T>(T) {
    std::vector<Wide<T>> mask(static_cast<std::size_t>(columns));
    const auto* from = elements<const T>(in);
    auto* to = elements<T>(out);
    for (std::int64_t row = window.rows.begin; row < window.rows.end; ++row) {
      fill_dropout_run(mask.data(), row, window.columns.begin, columns, key, p, 1 / (1 - p));
      run_vectorised<Multiply<T>>(from, mask.data(), to, columns);
      from += columns;
      to += columns;
    }
  });
}

}  // namespace fourfold::kernels::cpu
