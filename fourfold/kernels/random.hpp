// Random numbers as pure functions of a key and a global index: the same on every grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "fourfold/grid/layout.hpp"
#include "fourfold/kernels/tensor.hpp"

namespace fourfold::kernels {

/// A stream of random numbers.
struct Key {
  std::uint64_t value = 0;

  bool operator==(const Key&) const = default;
};

/// Different names or numbers give unrelated streams.
Key key_of(std::uint64_t seed, std::string_view name);
Key key_of(Key key, std::uint64_t number);

/// Fills the shard of a global tensor with normally distributed numbers of mean 0. Padding is zero.
/// The element of row-major global index g is the same on every grid.
void fill_normal(Tensor& shard, const grid::Shape& global, const grid::Block& block, Key key,
                 double deviation);

/// Writes `count` normally distributed numbers, the first of which has the index `first` in row
/// `row` of the stream. Every number is a function of key, row and index.
void fill_normal_run(float* out, std::int64_t row, std::int64_t first, std::int64_t count, Key key,
                     double deviation = 1);
void fill_normal_run(double* out, std::int64_t row, std::int64_t first, std::int64_t count, Key key,
                     double deviation = 1);

/// A number from [0, count), each as likely as the others; a function of key and row.
std::int64_t uniform_number(std::int64_t count, std::int64_t row, Key key);

/// The place of a matrix of activations in the global one: row r has the number `rows.begin + r`,
/// and column c is channel `columns.begin + c`.
struct Window2 {
  grid::Range rows;
  grid::Range columns;
};

/// An element is dropped if its random number of 32 bits is less than this.
std::uint32_t drop_threshold(double p);

/// mask[r][c] = scale if the element is kept, else 0. An element is dropped with probability p.
/// `mask` has the shape of the window, in any floating type.
void fill_dropout_mask(Tensor& mask, const Window2& window, Key key, double p, double scale);

/// out = in times the mask. The product is exact also where the elements are bf16. The tensors are
/// contiguous.
void apply_dropout(const Tensor& in, Tensor& out, const Window2& window, Key key, double p);

/// The same mask for one row, contiguous in memory: `count` columns starting with `first`.
void fill_dropout_run(float* out, std::int64_t row, std::int64_t first, std::int64_t count, Key key,
                      double p, double scale);
void fill_dropout_run(double* out, std::int64_t row, std::int64_t first, std::int64_t count,
                      Key key, double p, double scale);

}  // namespace fourfold::kernels
