// What a GPT is, and on which grids it fits.
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
  bool checkpoint = false;  ///< keep only the blocks' inputs
  nn::Precision precision;
  std::uint64_t seed = 1;
};

/// Why the model does not fit a grid, with `samples` sequences a forward pass; empty if it does.
std::string misfit(const GptSpec& spec, const grid::Sizes& sizes, std::int64_t samples);
bool fits(const GptSpec& spec, const grid::Sizes& sizes, std::int64_t samples);

/// The grids of so many ranks over x, y, z and data that it fits.
std::vector<grid::Sizes> fitting_grids(const GptSpec& spec, int ranks, std::int64_t samples);

/// The same for a message: "x=2,y=1,z=1,data=4 or ...", or what to change when there is none.
std::string grids_that_work(const GptSpec& spec, int ranks, std::int64_t samples);

/// Throws ConfigError, that says which grids would work, unless SUMMA can be used on this one.
void check_summa(const Mesh& mesh, const GptSpec& spec, std::int64_t samples);

/// How the ranks along x and y share the work of attention.
enum class AttentionSplit {
  kHeads,    ///< each has some of the heads
  kSamples,  ///< along y some of the heads, along x some of the samples
  kSquare,   ///< along x some of the heads, along y some of the samples
};

/// With SUMMA the square; else heads if they divide, else samples. Throws ConfigError that says
/// which grids would work when neither does.
AttentionSplit attention_split(const Mesh& mesh, const GptSpec& spec, std::int64_t samples);

}  // namespace fourfold::model
