// The spec of a GPT, and the grids that it fits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/nn/algorithm.hpp"

namespace fourfold::model {

using at::Tensor;
using tensor::Mesh;

struct GptSpec {
  std::int64_t vocabulary = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 0;
  std::int64_t context = 0;
  double dropout = 0;
  bool tied = true;                              ///< the head uses the table of the embedding
  nn::Algorithm algorithm = nn::Algorithm::k4d;  ///< of the products
  nn::Activations activations = nn::Activations::kSharded;
  bool checkpoint = false;  ///< keep only the inputs of the blocks
  nn::Precision precision;
  std::uint64_t seed = 1;
};

/// Why the model does not fit a grid, with `samples` sequences in a forward pass. Empty if it fits.
std::string misfit(const GptSpec& spec, const grid::Sizes& sizes, std::int64_t samples);
bool fits(const GptSpec& spec, const grid::Sizes& sizes, std::int64_t samples);

/// The grids of `ranks` ranks over x, y, z and data that the model fits.
std::vector<grid::Sizes> fitting_grids(const GptSpec& spec, int ranks, std::int64_t samples);

/// The same as text for a message: "x=2,y=1,z=1,data=4 or ...", or what to change when there is no
/// such grid.
std::string grids_that_work(const GptSpec& spec, int ranks, std::int64_t samples);

/// Throws ConfigError that says which grids would work, unless SUMMA can be used on this mesh.
void check_summa(const Mesh& mesh, const GptSpec& spec, std::int64_t samples);

/// How the ranks along x and y share the work of attention.
enum class AttentionSplit {
  kHeads,    ///< each rank has some of the heads
  kSamples,  ///< along y some of the heads, along x some of the samples
  kSquare,   ///< along x some of the heads, along y some of the samples
};

/// With SUMMA the split is the square. Otherwise it is by heads if they divide, else by samples.
/// Throws ConfigError that says which grids would work when neither divides.
AttentionSplit attention_split(const Mesh& mesh, const GptSpec& spec, std::int64_t samples);

}  // namespace fourfold::model
