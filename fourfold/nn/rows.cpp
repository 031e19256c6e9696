// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/rows.hpp"

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;

void check_batch(const Mesh& mesh, const Batch& batch, Activations activations) {
  const int groups = mesh.size({Axis::kData, Axis::kZ});
  if (batch.samples < 1) throw ConfigError(concat("a batch of ", batch.samples, " samples"));
  if (batch.samples % groups != 0) {
    throw ConfigError(concat(
        "a batch of ", batch.samples, " samples cannot be split over data=", mesh.size(Axis::kData),
        " times z=", mesh.size(Axis::kZ), ": it must be a multiple of ", groups));
  }
  if (activations == Activations::kReplicated) return;
  const std::int64_t rows = local_samples(mesh, batch) * batch.context;
  for (const Axis axis : {Axis::kX, Axis::kY}) {
    if (rows % mesh.size(axis) != 0) {
      throw ConfigError(concat("the ", rows, " rows (samples times context) of a rank cannot be ",
                               "split over ", axis, "=", mesh.size(axis),
                               ": change the context or the batch, or use replicated activations"));
    }
  }
}

Batch part_of(const Batch& batch, int part, int parts) {
  Batch result = batch;
  result.part = part;
  result.parts = parts;
  return result;
}

namespace {

/// The samples of this rank, of all parts.
std::int64_t all_local_samples(const Mesh& mesh, const Batch& batch) {
  return batch.samples / mesh.size({Axis::kData, Axis::kZ});
}

/// The first sample of part number `part`.
std::int64_t part_begin(const Mesh& mesh, const Batch& batch, int part) {
  return all_local_samples(mesh, batch) * part / batch.parts;
}

}  // namespace

std::int64_t local_samples(const Mesh& mesh, const Batch& batch) {
  return part_begin(mesh, batch, batch.part + 1) - part_begin(mesh, batch, batch.part);
}

std::int64_t first_local_sample(const Mesh& mesh, const Batch& batch) {
  return batch.first_sample + mesh.index({Axis::kData, Axis::kZ}) * all_local_samples(mesh, batch) +
         part_begin(mesh, batch, batch.part);
}

grid::Range row_range(const Mesh& mesh, const Batch& batch, const Axes& inner) {
  const std::int64_t rows = local_samples(mesh, batch) * batch.context / mesh.size(inner);
  const std::int64_t begin =
      first_local_sample(mesh, batch) * batch.context + mesh.index(inner) * rows;
  return {begin, begin + rows};
}

grid::Range hidden_rows(const Mesh& mesh, const Batch& batch, Activations activations) {
  return row_range(mesh, batch, activations == Activations::kSharded ? Axes(Axis::kY) : Axes());
}

}  // namespace fourfold::nn
