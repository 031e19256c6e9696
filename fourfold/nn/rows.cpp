// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/rows.hpp"

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::nn {

using grid::Axes;
using grid::Axis;

std::string batch_misfit(const grid::Sizes& g, const Batch& batch, Activations activations) {
  const std::int64_t groups = std::int64_t{g.data} * g.z;
  if (batch.samples < 1) return concat("a batch of ", batch.samples, " samples");
  if (batch.samples % groups != 0) {
    return concat("a batch of ", batch.samples, " samples cannot be split over data=", g.data,
                  " times z=", g.z, ": it must be a multiple of ", groups);
  }
  if (activations == Activations::kReplicated) return {};
  const std::int64_t rows = batch.samples / groups * batch.context;
  for (const auto& [axis, size] : {std::pair{Axis::kX, g.x}, std::pair{Axis::kY, g.y}}) {
    if (rows % size == 0) continue;
    return concat("the ", rows, " rows (samples times context) of a rank cannot be split over ",
                  axis, "=", size,
                  ": change the context or the batch, or use replicated activations");
  }
  return {};
}

void check_batch(const Mesh& mesh, const Batch& batch, Activations activations) {
  const grid::Sizes sizes{.x = mesh.size(Axis::kX),
                          .y = mesh.size(Axis::kY),
                          .z = mesh.size(Axis::kZ),
                          .data = mesh.size(Axis::kData)};
  const std::string reason = batch_misfit(sizes, batch, activations);
  if (!reason.empty()) throw ConfigError(reason);
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
