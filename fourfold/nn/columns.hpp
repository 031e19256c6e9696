// Columns of activations that are split over ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/parameter_spec.hpp"

namespace fourfold::nn {

/// Pieces of columns that lie one below the other, as they are communicated, become columns side by
/// side; and the reverse. Makes no copy of one piece.
Tensor merge_columns(const Mesh& mesh, const Tensor& stacked, std::int64_t pieces);
Tensor stack_columns(const Mesh& mesh, const Tensor& rows, std::int64_t pieces);

/// The columns of this rank, where columns are split over `axes`; in memory of their own unless
/// they are all columns.
Tensor own_columns(const Mesh& mesh, const Tensor& rows, const grid::Axes& axes);

/// Why `size` of something cannot be split over `by` ranks; empty if it can.
std::string cannot_split(const std::string& name, const char* what, std::int64_t size,
                         std::int64_t by, const std::string& axes);

}  // namespace fourfold::nn
