// The rows of the batch that a rank has. Rows are (sample, position), flattened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "fourfold/grid/block.hpp"
#include "fourfold/nn/linear.hpp"

namespace fourfold::nn {

/// A forward pass over the whole grid.
struct Batch {
  std::int64_t samples = 0;         ///< sequences, over all ranks
  std::int64_t context = 0;         ///< positions of each sequence
  std::int64_t first_sample = 0;    ///< the number of the first, counted from the start of the step
  std::uint64_t step = 0;           ///< of training: dropout differs from step to step
  std::int64_t first_position = 0;  ///< of each sequence; more than 0 where a text is continued
  int part = 0;                     ///< which part of each rank's samples
  int parts = 1;
};

/// The same batch, restricted to a part of each rank's samples.
Batch part_of(const Batch& batch, int part, int parts);

/// Why a batch cannot be split over a grid; empty if it can. The ranks along data and z get whole
/// samples, and the ranks along the other axes equal numbers of rows.
std::string batch_misfit(const grid::Sizes& sizes, const Batch& batch, Activations activations);
/// Throws ConfigError where there is such a reason.
void check_batch(const Mesh& mesh, const Batch& batch, Activations activations);

/// The number of samples of this rank. Samples are split over data and z only.
std::int64_t local_samples(const Mesh& mesh, const Batch& batch);
/// The number of the first sample of this rank.
std::int64_t first_local_sample(const Mesh& mesh, const Batch& batch);

/// The rows of a tensor that is split over (data, z, `inner`), numbered over all samples of the
/// step.
grid::Range row_range(const Mesh& mesh, const Batch& batch, const grid::Axes& inner);

/// The rows of the hidden state between blocks, which is the input of a linear layer that is not
/// transposed.
grid::Range hidden_rows(const Mesh& mesh, const Batch& batch, Activations activations);

}  // namespace fourfold::nn
