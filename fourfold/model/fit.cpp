// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/fit.hpp"

#include "fourfold/base/check.hpp"

namespace fourfold::model {

using grid::Axis;

namespace {

/// How many of the grids that would work are named in a message.
constexpr std::size_t kNamedGrids = 6;

bool splits_heads(const GptSpec& spec, const grid::Sizes& g) {
  return spec.heads % (std::int64_t{g.x} * g.y) == 0;
}

/// Whether attention can be split by samples over x. `samples` must be divisible by data times z.
bool splits_samples(const GptSpec& spec, const grid::Sizes& g, std::int64_t samples) {
  return spec.heads % g.y == 0 && samples / (std::int64_t{g.data} * g.z) % g.x == 0;
}

/// SUMMA needs a square that divides width and heads, and whole samples for its rows.
std::string square_misfit(const GptSpec& spec, const grid::Sizes& g, std::int64_t samples) {
  if (g.x != g.y) {
    return concat("SUMMA multiplies on a square of ranks: x=", g.x, " and y=", g.y,
                  " must be equal");
  }
  if (spec.width % g.x != 0) {
    return concat("a width of ", spec.width, " cannot be split over x=", g.x, " and y=", g.y);
  }
  if (spec.heads % g.x != 0) {
    return concat(spec.heads, " heads cannot be split over x=", g.x);
  }
  if (samples % (std::int64_t{g.data} * g.z * g.y) == 0) return {};
  return concat("with SUMMA a batch of ", samples, " samples cannot be split over data=", g.data,
                " times z=", g.z, " times y=", g.y);
}

std::string attention_misfit(const GptSpec& spec, const grid::Sizes& g, std::int64_t samples) {
  if (splits_heads(spec, g) || splits_samples(spec, g, samples)) return {};
  return concat(spec.heads, " heads cannot be split over x=", g.x, " times y=", g.y, ", nor ",
                samples / (std::int64_t{g.data} * g.z), " samples of a rank over x");
}

grid::Sizes sizes_of(const Mesh& mesh) {
  return {.x = mesh.size(Axis::kX),
          .y = mesh.size(Axis::kY),
          .z = mesh.size(Axis::kZ),
          .data = mesh.size(Axis::kData)};
}

}  // namespace

std::string misfit(const GptSpec& spec, const grid::Sizes& g, std::int64_t samples) {
  if (g.pipe > spec.layers) {
    return concat(spec.layers, " layers cannot be split over pipe=", g.pipe);
  }
  if (spec.algorithm == nn::Algorithm::kSumma) return square_misfit(spec, g, samples);
  const std::int64_t groups = std::int64_t{g.data} * g.z;
  if (samples % groups != 0) {
    return concat("a batch of ", samples, " samples cannot be split over data=", g.data,
                  " times z=", g.z);
  }
  if (spec.width % g.x != 0 || spec.width % g.y != 0) {
    return concat("a width of ", spec.width, " cannot be split over x=", g.x, " and over y=", g.y);
  }
  const std::int64_t rows = samples / groups * spec.context;
  const bool sharded = spec.activations == nn::Activations::kSharded;
  if (sharded && (rows % g.x != 0 || rows % g.y != 0)) {
    return concat("the ", rows, " tokens of a rank's samples cannot be split over x=", g.x,
                  " and over y=", g.y);
  }
  return attention_misfit(spec, g, samples);
}

bool fits(const GptSpec& spec, const grid::Sizes& sizes, std::int64_t samples) {
  return misfit(spec, sizes, samples).empty();
}

std::vector<grid::Sizes> fitting_grids(const GptSpec& spec, int ranks, std::int64_t samples) {
  std::vector<grid::Sizes> found;
  for (const grid::Sizes& g :
       grid::factorisations(ranks, {Axis::kX, Axis::kY, Axis::kZ, Axis::kData})) {
    if (fits(spec, g, samples)) found.push_back(g);
  }
  return found;
}

std::string grids_that_work(const GptSpec& spec, int ranks, std::int64_t samples) {
  std::vector<std::string> named;
  for (const grid::Sizes& g : fitting_grids(spec, ranks, samples)) {
    if (named.size() == kNamedGrids) return join(named, " or ") + " and others";
    named.push_back(grid::to_string(g));
  }
  return named.empty() ? "none; change the ranks, the batch or the heads" : join(named, " or ");
}

void check_summa(const Mesh& mesh, const GptSpec& spec, std::int64_t samples) {
  if (spec.activations != nn::Activations::kSharded) {
    throw ConfigError("SUMMA splits activations over all ranks: they cannot be replicated");
  }
  const std::string reason = square_misfit(spec, sizes_of(mesh), samples);
  if (reason.empty()) return;
  throw ConfigError(concat(reason, "; with as many ranks these grids work: ",
                           grids_that_work(spec, mesh.grid().ranks(), samples)));
}

AttentionSplit attention_split(const Mesh& mesh, const GptSpec& spec, std::int64_t samples) {
  const grid::Sizes g = sizes_of(mesh);
  if (spec.algorithm == nn::Algorithm::kSumma) return AttentionSplit::kSquare;
  if (splits_heads(spec, g)) return AttentionSplit::kHeads;
  if (splits_samples(spec, g, samples)) return AttentionSplit::kSamples;
  throw ConfigError(concat(attention_misfit(spec, g, samples),
                           "; with as many ranks these grids work: ",
                           grids_that_work(spec, mesh.grid().ranks(), samples)));
}

}  // namespace fourfold::model
