// How the ranks share the work of attention.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/attention.hpp"
#include "fourfold/nn/product_kind.hpp"
#include "fourfold/nn/rows.hpp"

namespace fourfold::nn {

/// How the ranks along x and y share the heads and samples.
enum class HeadSplit {
  kHeads,    ///< each rank has some of the heads
  kSamples,  ///< along y some of the heads, along x some of the samples
  kSquare,   ///< along x some of the heads, along y some of the samples
};

/// Why attention with that many heads cannot be split over a grid, with `samples` samples in a
/// pass. Empty if it can. `samples` must be divisible by data times z.
std::string attention_misfit(ProductKind product, std::int64_t heads, const grid::Sizes& sizes,
                             std::int64_t samples);

/// With SUMMA the split is the square. Otherwise it is by heads if they divide, else by samples.
HeadSplit head_split(ProductKind product, std::int64_t heads, const grid::Sizes& sizes);

/// How the columns of query, key and value are spread over x.
inline Spread spread_in_attention(HeadSplit split) {
  return split == HeadSplit::kHeads ? Spread::kColumns : Spread::kRows;
}

/// The heads and samples of this rank. Dropout and names are left to the caller.
AttentionShape attention_shape(const Mesh& mesh, HeadSplit split, std::int64_t heads,
                               std::int64_t head_size, const Batch& batch);

/// The flops of attention for a batch, over all ranks, by the usual count (Layer::flops). `width`
/// is the number of columns of the queries.
double attention_flops(std::int64_t width, const Batch& batch);

}  // namespace fourfold::nn
