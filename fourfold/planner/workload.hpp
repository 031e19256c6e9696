// What a model computes in a step, whatever the grid: taken from a dry run on one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/schedule/compute.hpp"

namespace fourfold::planner {

/// A product of the forward pass: rows × in × out.
struct ForwardProduct {
  schedule::Extent extent;  ///< of one sample
  schedule::DType dtype = schedule::DType::kF32;
  bool linear = false;  ///< a layer whose weight, input and output are split over the grid
  bool conv = false;    ///< the same of a window of several pixels, so that rows are not its input
  std::int64_t times = 1;

  bool operator==(const ForwardProduct&) const = default;
};

/// The arithmetic of one sample, forward and backward, without recomputation; and of an update.
struct Workload {
  std::vector<ForwardProduct> products;
  double product_flops = 0;    ///< of all products, forward and backward
  double attention_flops = 0;  ///< the same of attention
  double forward_product_flops = 0;
  double forward_attention_flops = 0;
  std::int64_t parameters = 0;
  /// Where blocks are not alike, the whole model counts as one block.
  std::int64_t blocks = 1;
  bool alike = true;
  /// Where blocks are not alike: the bytes of activations that are gathered or summed along x for
  /// one sample, if y has one rank, and the other way round. A sum that all get counts twice.
  double bytes_along_x = 0;
  double bytes_along_y = 0;
  double head_in_blocks = 0;  ///< the flops of what comes after the blocks, in flops of a block
  schedule::DType dtype = schedule::DType::kF32;
};

/// If all blocks of the model are alike, dry runs of one and of two blocks are enough.
Workload workload_of(const config::Config& config);

}  // namespace fourfold::planner
